"""The steps of scripts/test, each of one or more commands.

All commands run, and the failing ones are named at the end.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

import psutil

from .environment import ROOT, ensure_webdataset1
from .processor_seconds import write_seconds
from .stacks import kill_tree, print_stacks

PYTHON = sys.executable
WORK = ROOT / ".test"
# Seconds for all steps; on an idle machine they take a few minutes.
LIMIT = 3 * 3600.0
MARK = "mark.webdataset"
# All tests: those in modules of the package are doctests.
ALL = "tests,wdsflow"
# Several processes of pytest share the checkout: without a cache.
ONCE = ("-q", "--only-expected-skips", "-p", "no:cacheprovider")
# Processes that share cores: threads of one operation would wait for each other, and memory go back
# and forth to the system.
SHARING = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 28),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
}
SHM = Path("/dev/shm")  # noqa: S108 - memory, on Linux
# Free bytes of SHM below which temporary files go to the disk.
ROOM = 4 << 30
# webdataset 1.x makes this folder when it is imported, and uses it for nothing here.
WIDS_CACHE = Path("/tmp/_wids_cache")  # noqa: S108
# Ships a top-level package `validate`, as ours must not.
CLASHING = "configobj==5.0.9"

_until = time.monotonic() + LIMIT


class StepError(Exception):
    """A command of a step ended with another status than 0."""


def main(names: list[str]) -> int:
    """Run the named steps, or those of the gate; return 0 if none failed."""
    # Hundreds of tests start a process: each would compile its modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        print(f"no step {', '.join(unknown)}; there are: {', '.join(STEPS)}")
        return 2
    start = time.monotonic()
    requested = names or GATE
    with _temporary_files():
        failed = _run_all(requested)
    total = f"{len(requested)} steps in {time.monotonic() - start:.0f} s"
    result = f"FAILED in {', '.join(failed)}" if failed else "all passed"
    print(f"\nscripts/test: {result}; {total}")
    return 1 if failed else 0


@contextlib.contextmanager
def _temporary_files() -> Iterator[None]:
    """Let all that steps leave in folders for temporary files be removed at the end."""
    # Files that are removed when their test ends need not reach a disk: thousands of times, a test
    # would wait for it.
    memory = SHM if SHM.is_dir() and shutil.disk_usage(SHM).free >= ROOM else None
    # A short name: sockets below it have paths of at most 107 bytes.
    with tempfile.TemporaryDirectory(
        prefix="wt-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        before = dict(os.environ)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            tempfile.tempdir = None
            # Not if another program has put something into it.
            with contextlib.suppress(OSError):
                WIDS_CACHE.rmdir()


def _run_all(names: Sequence[str]) -> list[str]:
    """Run steps, the quick ones next to the others; return the names of those that failed."""
    quick = [name for name in names if name in QUICK]
    others = [name for name in names if name not in QUICK]
    if not others:
        return [name for name in quick if not _run(name, sys.stdout)]
    # Tests wait much of the time: the other steps fit in between.
    with ThreadPoolExecutor(1) as thread:
        in_thread = thread.submit(_run_unprinted, quick)
        failed = [name for name in others if not _run(name, sys.stdout)]
        output, failed_quick = in_thread.result()
    print(output, end="")
    return failed_quick + failed


def _run_unprinted(names: list[str]) -> tuple[str, list[str]]:
    """Run steps; return what they would have printed, and the names of those that failed."""
    with tempfile.TemporaryFile("w+") as out:
        failed = [name for name in names if not _run(name, out)]
        out.seek(0)
        return out.read(), failed


def _run(name: str, out: TextIO) -> bool:
    print(f"\n== {name}: {(STEPS[name].__doc__ or '').splitlines()[0]}", file=out, flush=True)
    begin = time.monotonic()
    try:
        STEPS[name](out)
        result = "ok"
    except StepError as error:
        result = f"FAILED: {error}"
    print(f"== {name}: {result} ({time.monotonic() - begin:.0f} s)", file=out, flush=True)
    return result == "ok"


def lint(out: TextIO) -> None:
    """Style and likely bugs, by ruff."""
    call(out, PYTHON, "-m", "ruff", "check", ".")
    call(out, PYTHON, "-m", "ruff", "format", "--check", ".")


def types(out: TextIO) -> None:
    """Types, by mypy --strict."""
    call(out, PYTHON, "-m", "mypy")


def reference(out: TextIO) -> None:
    """Generated pages, and the README's picture, are what the code says and prints."""
    call(out, PYTHON, "scripts/gen_reference.py", "--check")
    call(out, PYTHON, "scripts/picture", "--check")


def wheel(out: TextIO) -> None:
    """The wheel holds everything, and installs next to a package that owns the name `validate`."""
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        dist, venv = Path(folder, "dist"), Path(folder, "venv")
        # An sdist, and a wheel from it.
        build = [
            "uv",
            "build",
            "--quiet",
            "--out-dir",
            str(dist),
            "--build-constraint",
            "scripts/locks/wdsflow.txt",
        ]
        # uv leaves lock files in the folder for temporary files.
        call(out, PYTHON, "-m", *build, environment={"TMPDIR": folder})
        built = next(dist.glob("*.whl"))
        call(out, PYTHON, "-m", "check_wheel_contents", str(built))
        call(out, PYTHON, "-m", "uv", "venv", "--quiet", "--python", PYTHON, str(venv))
        python = venv / "bin" / "python"
        constraints = ["--constraint", "scripts/locks/wdsflow.txt"]
        for distribution in (str(built), CLASHING):
            install = ["uv", "pip", "install", "--quiet", "--python", str(python), *constraints]
            call(out, PYTHON, "-m", *install, distribution)
        copy = shutil.copy(ROOT / "scripts" / "support" / "after_install.py", folder)
        call(out, str(python), copy, cwd=Path(folder))


def site(out: TextIO) -> None:
    """The documentation site, with its links; warnings are errors."""
    with tempfile.TemporaryDirectory() as folder:
        call(out, PYTHON, "scripts/docs", "--output", folder)


def tests(out: TextIO) -> None:
    """Doctests, README blocks and tests; with webdataset 1.x too, those that look at webdataset."""
    pytest_in_forks(out, [_with_webdataset1(), ALL], "-m", "not deep")


def webdataset1(out: TextIO) -> None:
    """The tests that look at webdataset, with webdataset 1.x alone; `tests` has them too."""
    pytest_in_forks(out, [_with_webdataset1()])


def deep(out: TextIO) -> None:
    """Run the slow tests, which are not part of the gate.

    They are more cases of the property tests, new ones each time, and slow proofs.
    """
    pytest_in_forks(out, [ALL], "--hypothesis-profile", "search", "-m", "deep or hypothesis")


def seconds(out: TextIO) -> None:
    """Record the processor time of the tests, and print the slowest.

    The gate orders the tests by these times.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "seconds")
        try:
            pytest_in_forks(out, [ALL], "-m", "not deep", "--record-seconds", str(record))
        finally:
            # Also where a test failed; not where none ran.
            if record.is_file():
                write_seconds(record, out)


def _with_webdataset1() -> str:
    # Only the files with such tests: to import all others takes longer than to run these.
    files = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if MARK in path.read_text("utf-8")
    ]
    return f"{ensure_webdataset1()}:{','.join(['-m', 'webdataset and not deep', *files])}"


def pytest_in_forks(out: TextIO, groups: list[str], *options: str) -> None:
    """Run groups of tests in processes that share imports.

    The order of tests in files is drawn from one seed, which is printed.
    """
    # More processes than cores, because tests wait a lot.
    processes = 2 * (os.cpu_count() or 1)
    script = [PYTHON, "scripts/support/forked_pytest.py", str(processes), *groups, "--"]
    seed = f"--randomly-seed={random.randrange(1 << 32)}"
    environment = SHARING | {"WDSFLOW_WEBDATASET1": str(ensure_webdataset1())}
    call(out, *script, *ONCE, seed, *options, environment=environment)


def call(
    out: TextIO, *command: str, cwd: Path = ROOT, environment: dict[str, str] | None = None
) -> None:
    """Run a command; raise `StepError` if it fails, or if the time for all steps is over."""
    shown = " ".join(Path(word).name if index == 0 else word for index, word in enumerate(command))
    print(f"$ {shown}", file=out, flush=True)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
    )
    try:
        status = process.wait(max(0.0, _until - time.monotonic()))
    except subprocess.TimeoutExpired:
        give_up(process)
        message = f"{shown} hangs: all steps together may take {LIMIT / 3600:g} h"
        raise StepError(message) from None
    if status:
        message = f"{shown} ended with status {status}"
        raise StepError(message)


def give_up(process: "subprocess.Popen[bytes]") -> None:
    """Print the stacks of a process and of all that it started, and kill them."""
    top = psutil.Process(process.pid)
    print_stacks(top, sys.stdout)
    kill_tree(top)
    process.wait()


STEPS: dict[str, Callable[[TextIO], None]] = {
    step.__name__: step
    for step in (lint, types, reference, wheel, site, tests, webdataset1, deep, seconds)
}
# They take seconds, and run while the tests do.
QUICK = ("lint", "types", "reference", "wheel", "site")
GATE = (*QUICK, "tests")
