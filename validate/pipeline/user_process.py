"""What the processes have in common that run the user's code: their ranks, their memory, and how they ended."""

import contextlib
import os
import re
import resource
import sys
import traceback
from collections.abc import Collection
from pathlib import Path
from tarfile import TarInfo
from typing import IO

from wdsflow.engines.peer import ending, likely_memory
from wdsflow.memory.usage import host_memory, private_data
from wdsflow.text.shell import escape

from ..tracing.errors import own_line

# Seconds for the import of the user's module.
IMPORT = 120.0
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "WORKER", "NUM_WORKERS", "SLURM_PROCID", "SLURM_NTASKS")
# Bytes.
_LEAST_MEMORY = 1 << 30
# The counts of this container, by the versions of control groups, and of the whole machine.
OOM_COUNTS = [
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
]
_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
# Of a dict that may hold a key.
_MOST_VALUES = 16
# Of the name of a member: its key.
_STEM = re.compile(r"(?:.*/)?[^./]+")


def forget_ranks() -> None:
    """Remove the variables by which launchers tell a process its rank."""
    for name in _RANKS:
        os.environ.pop(name, None)


def bound_memory() -> None:
    """Limit memory to half of the free memory: a pipeline that needs more gets a MemoryError."""
    most = private_data() + max(_LEAST_MEMORY, host_memory().free // 2)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def oom_kills() -> int:
    """Return how many processes the system has killed so far because memory was short, as far as it says that."""
    kills = 0
    for path in OOM_COUNTS:
        with contextlib.suppress(OSError):
            for count in _OOM_KILL.findall(path.read_text()):
                kills = max(kills, int(count))
    return kills


def how_it_ended(status: int, log: IO[bytes]) -> str:
    """Return how a process ended, with the last line of its standard error."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    said = likely_memory(status, "one") or (f": {escape(lines[-1], 300)}" if lines else "")
    return f"the process {ending(status, 'ended with exit status')}{said}"


def start_ray() -> None:
    """Start a local Ray if the pipeline imports Ray: its start is no part of the run."""
    ray = sys.modules.get("ray")
    if ray is not None and not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def cause_of(error: BaseException) -> BaseException:
    """Return the error of the user's code that Ray has wrapped, or the error itself."""
    for _ in range(8):
        inner = type(error).__module__.startswith("ray.") and (getattr(error, "cause", None) or error.__cause__)
        if not isinstance(inner, BaseException):
            break
        error = inner
    return error


def key_in_frames(error: BaseException, keys: Collection[str]) -> str:
    """Return the key of the sample that the user's code had at hand when it raised an error, by its variables; "" if unknown.

    ``keys``: of the samples in the shards.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if own_line(frame.f_code.co_filename, frame.f_lineno):
            for value in list(frame.f_locals.values()):
                if key := _key_of(value, keys):
                    return key
    return ""


def _key_of(value: object, keys: Collection[str]) -> str:
    if isinstance(value, dict):
        named = value.get("__key__")
        values = [named] if isinstance(named, str) else list(value.values())[:_MOST_VALUES]
        return next((each for each in values if isinstance(each, str) and (each in keys or each is named)), "")
    name = value if isinstance(value, str) else getattr(value, "name", None) if isinstance(value, TarInfo) else None
    if not isinstance(name, str):
        return ""
    stem = _STEM.match(name)
    return next((each for each in (name, stem[0] if stem else "") if each in keys), "")
