"""Runs pytest in several processes, forked from one that has imported what is large.

    python scripts/support/forked_pytest.py PROCESSES [PATH:]FOLDER[,FOLDER...] ... -- OPTION...

A process collects the tests of a group of folders; PROCESSES forks of it run them, the longest
first. A group with a PATH finds other versions of modules there, and runs in one process. A group
may have options of its own among its folders. Each process prints when it ends, and the status is 1
if one failed. PyTorch, OpenCLIP and transformers take ten seconds of processor time to import, and
what is tested another one: here they are imported once.
"""

import atexit
import contextlib
import gc
import importlib
import io
import os
import pkgutil
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
# Imports webdataset, whose version differs between groups: not imported before the fork.
WITH_WEBDATASET = "wdsflow.training"


def main(arguments: list[str]) -> int:
    """Run pytest for each group of folders; return 0 if none failed."""
    end_of_groups = arguments.index("--")
    processes, *groups = arguments[:end_of_groups]
    options = arguments[end_of_groups + 1 :]
    # As `python -m pytest` and pyproject.toml have it.
    sys.path[:1] = [os.getcwd(), os.path.join(os.getcwd(), "scripts")]
    # Elsewhere a fork may not use what its parent has loaded.
    if sys.platform == "linux":
        for name in (*LARGE, *_tested()):
            importlib.import_module(name)
        _collect_one()
        # Neither looked through nor copied in each process.
        gc.freeze()
        # To count frozen objects takes 20 ms: forks inherit the answer, which is cached.
        importlib.import_module("wdsflow.old_objects").has_frozen_objects()
    from support.divided_session import print_and_close

    running: dict[int, tuple[str, IO[bytes]]] = {}
    for group in groups:
        # The fork has it too.
        output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        process = os.fork()
        if not process:
            for _, other in running.values():
                other.close()
            _run_group(group, int(processes), options, output)
        running[process] = group, output
    failed: list[str] = []
    while running:
        process, status = os.wait()
        group, printed = running.pop(process)
        print_and_close(printed)
        if status:
            failed.append(f"{group}: pytest ended with status {os.waitstatus_to_exitcode(status)}")
    print(*failed, sep="\n")
    return int(bool(failed))


def end(status: int) -> NoReturn:
    """Exit as Python does, but without the final garbage collection.

    Skips the search through all objects, and the messages of libraries about objects that remain.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _tested() -> Iterator[str]:
    """Yield the names of the tested modules.

    Modules that import webdataset and programs are left out.
    """
    package = importlib.import_module(TESTED)
    for module in pkgutil.walk_packages(package.__path__, f"{TESTED}."):
        if not module.name.startswith(WITH_WEBDATASET) and not module.name.endswith(".__main__"):
            yield module.name


def _collect_one() -> None:
    """Collect one hypothesis test, to do slow first-time work before the fork.

    pytest imports its plugins, and hypothesis looks through all modules for constants.
    """
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


def _run_group(group: str, processes: int, options: list[str], output: IO[bytes]) -> NoReturn:
    from support.divided_session import DividedSession, redirect
    from support.processor_seconds import read_seconds

    redirect(output)
    path, _, folders = group.rpartition(":")
    if path:
        _put_first(path)
    import pytest

    arguments = [*options, *folders.split(",")]
    print("$ pytest", *arguments, flush=True)
    sys.argv = ["pytest", *arguments]
    if path or sys.platform != "linux":
        processes = 1
    session = DividedSession(processes, read_seconds())
    # Asserts in plugins of others need no better messages.
    status = int(pytest.main(["-W", "ignore:Module already imported", *arguments], [session]))
    print(*session.failures, sep="\n")
    end(status or int(bool(session.failures)))


def _put_first(path: str) -> None:
    """Let this process, and those that its tests start, import from a path before all others."""
    early = sorted(name for name in os.listdir(path) if name in sys.modules)
    if early:
        sys.exit(f"{path} comes too late for {', '.join(early)}: imported before the fork")
    sys.path.insert(0, path)
    os.environ["PYTHONPATH"] = path


if __name__ == "__main__":
    end(main(sys.argv[1:]))
