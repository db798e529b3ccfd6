"""Code for the processes that run the user's code.

It handles their ranks, their memory, and how they ended.
"""

import contextlib
import os
import re
import resource
import sys
from pathlib import Path
from typing import IO

from wdsflow.engines.exit_status import describe_exit, sigkill_cause
from wdsflow.memory.bounds import host_memory
from wdsflow.memory.usage import private_data_bytes
from wdsflow.text.shell import escape

# Seconds for the import of the user's module.
IMPORT = 120.0
# Variables by which torchrun, webdataset and Slurm tell a process its rank.
_RANKS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "WORKER",
    "NUM_WORKERS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
)
# Bytes that a process may allocate in any case.
_LEAST_MEMORY = 1 << 30
# The counts of this container, by the versions of control groups, and of the whole machine.
OOM_COUNTS = [
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
]
_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
# Of the last line of standard error.
_MOST_LETTERS = 300


def forget_ranks() -> None:
    """Remove the variables by which launchers tell a process its rank."""
    for name in _RANKS:
        os.environ.pop(name, None)


def limit_memory() -> None:
    """Limit memory to half of the free memory: a pipeline that needs more gets a MemoryError."""
    limit = private_data_bytes() + max(_LEAST_MEMORY, host_memory().free // 2)
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    # Not every system allows it.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))


def oom_kills() -> int:
    """Return how many processes the system has killed so far for lack of memory.

    Only kills that the system reports are counted.
    """
    kills = 0
    for path in OOM_COUNTS:
        with contextlib.suppress(OSError):
            for count in _OOM_KILL.findall(path.read_text()):
                kills = max(kills, int(count))
    return kills


def exit_text(exit_status: int, log: IO[bytes]) -> str:
    """Return how a process ended, with the last line of its standard error.

    Args:
        exit_status: as ``Peer.close`` returns it.
        log: the standard error of the process.
    """
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    reason = sigkill_cause(exit_status, "one")
    if not reason and lines:
        reason = f": {escape(lines[-1], _MOST_LETTERS)}"
    return f"the process {describe_exit(exit_status, 'ended with exit status')}{reason}"


def start_ray() -> None:
    """Start a local Ray if the pipeline imports Ray: its start is no part of the run."""
    ray = sys.modules.get("ray")
    if ray is not None and not ray.is_initialized():
        ray.init(
            address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
