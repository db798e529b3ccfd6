"""Which process works on a run, and whether it still exists.

It is stored in locks and states, which processes of other machines may read. A number alone would
not do: another process gets it after a while, or in another container.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def this_process() -> dict[str, object]:
    """Return what identifies this process: host, pid, boot and start time.

    Also has the time since when it works.
    """
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process": start_identity(os.getpid()),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def is_same_process(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two descriptions are of one process.

    Containers on several hosts often have the same pids.
    """
    return all(one.get(name) == other.get(name) for name in ("host", "pid", "process"))


def process_text(process: Mapping[str, Any]) -> str:
    """Return which process ``this_process`` described."""
    return f"process {process.get('pid')} on {process.get('host')}, since {process.get('since')}"


def is_visible_here(process: Mapping[str, Any]) -> bool:
    """Return whether a process would be visible here.

    It would if it has the same host, boot and process namespace.
    """
    start = process.get("process")
    if not isinstance(start, str) or process.get("host") != socket.gethostname():
        return False
    this_start = start_identity(os.getpid())
    return bool(this_start) and this_start.split()[:2] == start.split()[:2]


def is_alive(process: Mapping[str, Any]) -> bool:
    """Return whether a process of this machine still exists.

    The process is given by what ``this_process`` returned in it.
    """
    return start_identity(process.get("pid")) == process.get("process")


def start_identity(pid: object) -> str:
    """Return the boot, the process namespace and the start time of a process.

    "" if it has ended, or this is unknown.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        # The name of the program is in brackets, and may contain anything.
        state, *fields = status.rpartition(")")[2].split()
        start_time = fields[18]
    except (OSError, IndexError):
        return ""
    # A zombie, or dead.
    if state in "ZX":
        return ""
    return f"{boot} {namespace} {start_time}"
