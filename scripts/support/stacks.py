"""Prints the stacks of a hanging process and of all its descendants, and kills them."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import psutil

# Seconds for py-spy at one process, and for all processes to end.
_PATIENCE = 30.0


def print_stacks(process: psutil.Process, to: TextIO) -> None:
    """Print the stacks of a process and of all its descendants.

    Stacks are those of Python's threads, by py-spy. For other processes it prints the command.
    """
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    for member in with_descendants(process):
        try:
            command = " ".join(member.cmdline())
            print(f"\n== process {member.pid}: {command[:200]}", file=to, flush=True)
            if "python" in Path(member.exe()).name:
                dump = [tool, "dump", "--nonblocking", "--pid", str(member.pid)]
                done = subprocess.run(
                    dump, capture_output=True, text=True, timeout=_PATIENCE, check=False
                )
                print(done.stdout or done.stderr, file=to, flush=True)
        except (psutil.Error, OSError, subprocess.SubprocessError) as error:
            print(error, file=to, flush=True)


def kill_tree(process: psutil.Process) -> None:
    """Kill a process and all below it, whatever groups they have."""
    processes = with_descendants(process)
    for member in processes:
        with contextlib.suppress(psutil.Error):
            member.kill()
    # The caller started the first, and waits for it.
    psutil.wait_procs(processes[1:], timeout=_PATIENCE)


def with_descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]
