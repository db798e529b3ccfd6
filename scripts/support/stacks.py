"""What hangs: the stacks of a process and of all that it started, and their end."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import psutil

# Seconds for one process.
_PATIENCE = 30.0


def print_stacks(process: psutil.Process, to: TextIO) -> None:
    """Print the stacks of a process and of all below it: of Python's threads, by py-spy; of others the command."""
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    for each in family(process):
        try:
            print(f"\n== process {each.pid}: {' '.join(each.cmdline())[:200]}", file=to, flush=True)
            if "python" in Path(each.exe()).name:
                dump = [tool, "dump", "--nonblocking", "--pid", str(each.pid)]
                done = subprocess.run(
                    dump, capture_output=True, text=True, timeout=_PATIENCE, check=False
                )
                print(done.stdout or done.stderr, file=to, flush=True)
        except (psutil.Error, OSError, subprocess.SubprocessError) as error:
            print(error, file=to, flush=True)


def end(process: psutil.Process) -> None:
    """Kill a process and all below it, whatever groups they have."""
    found = family(process)
    for each in found:
        with contextlib.suppress(psutil.Error):
            each.kill()
    # The first belongs to its parent.
    psutil.wait_procs(found[1:], timeout=_PATIENCE)


def family(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]
