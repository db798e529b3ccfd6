"""Runs pytest in several processes, forked from one that has imported what is large.

    python scripts/support/forked_pytest.py LANES [PATH:]FOLDER[,FOLDER...] ... -- OPTION...

Each group of folders is one process, LANES of them at a time: they print when they end, and the
status is 1 if one failed. A group may have options of its own among its folders, and a PATH in
which it finds other versions of modules. PyTorch, OpenCLIP and transformers take ten seconds of
processor time to import, and what is tested another one: here they are imported once.
"""

import atexit
import contextlib
import gc
import importlib
import io
import os
import pkgutil
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

LARGE = (
    "torch",
    "torchvision",
    "easyocr",
    "open_clip",
    "transformers.models.auto",
    "timm",
    "stanza.pipeline.core",
    "pyarrow.dataset",
    "fsspec",
    "hypothesis",
    "psutil",
)
TESTED = "wdsflow"
# Whose version differs between the processes.
WITH_WEBDATASET = "wdsflow.training"


def main(arguments: list[str]) -> int:
    """Run pytest for each group of folders; return 0 if none failed."""
    lanes, cut = int(arguments[0]), arguments.index("--")
    waiting, options = arguments[1:cut], arguments[cut + 1 :]
    # As python -m pytest has it.
    sys.path[0] = os.getcwd()
    # Elsewhere a fork may not use what its parent has loaded.
    if sys.platform == "linux":
        for name in (*LARGE, *_tested()):
            importlib.import_module(name)
        _collect_one()
        # Neither looked through nor copied in each process.
        gc.freeze()
    running: dict[int, tuple[str, IO[bytes]]] = {}
    failed: list[str] = []
    while waiting or running:
        while waiting and len(running) < lanes:
            part, printed = waiting.pop(0), tempfile.TemporaryFile()  # noqa: SIM115 - of the child, too
            process = os.fork()
            if not process:
                for stream in (1, 2):
                    os.dup2(printed.fileno(), stream)
                for each in (printed, *(file for _, file in running.values())):
                    each.close()
                path, _, folders = part.rpartition(":")
                if path:
                    if early := {name for name in os.listdir(path) if name in sys.modules}:
                        sys.exit(
                            f"{path} comes too late for {', '.join(sorted(early))}: imported before the fork"
                        )
                    sys.path.insert(0, path)
                    # Of the processes that tests start.
                    os.environ["PYTHONPATH"] = path
                _pytest([*options, *folders.split(",")])
            running[process] = part, printed
        process, status = os.wait()
        part, output = running.pop(process)
        with output:
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        if status:
            failed.append(f"{part}: pytest ended with status {os.waitstatus_to_exitcode(status)}")
    print(*failed, sep="\n")
    return int(bool(failed))


def _tested() -> Iterator[str]:
    """Yield the modules that are tested, without those that import webdataset, and without programs."""
    package = importlib.import_module(TESTED)
    for module in pkgutil.walk_packages(package.__path__, f"{TESTED}."):
        if not module.name.startswith(WITH_WEBDATASET) and not module.name.endswith(".__main__"):
            yield module.name


def _collect_one() -> None:
    """Collect a test of hypothesis: pytest imports its plugins, and hypothesis looks through all modules for constants."""
    import pytest

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        test = Path(folder, "test_nothing.py")
        test.write_text(
            "from hypothesis import given, strategies\ntest = given(strategies.none())(lambda _: None)\n"
        )
        status = pytest.main(
            [
                "-c",
                os.devnull,
                "--noconftest",
                "--collect-only",
                "-p",
                "no:cacheprovider",
                str(test),
            ]
        )
    assert status == 0, status
    del sys.modules[test.stem]


def _pytest(arguments: list[str]) -> NoReturn:
    import pytest

    print("$ pytest", *arguments, flush=True)
    sys.argv = ["pytest", *arguments]
    # Asserts in plugins of others need no better messages.
    end(int(pytest.main(["-W", "ignore:Module already imported", *arguments])))


def end(status: int) -> NoReturn:
    """End as Python does, but for the search through all objects, and what libraries say about what is left of theirs."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
