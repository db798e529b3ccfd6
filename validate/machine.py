"""The facts of a machine that matter for training."""

import contextlib
import os
import platform
import resource
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.engines.site import cpu_quota, schedulable_cores
from wdsflow.readers.installed_versions import versions

# Bytes or files; limits at least this high count as none.
UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Machine:
    """The input of ``doctor``. ``None``: unknown on this system."""

    # Distribution -> version.
    versions: Mapping[str, str] = field(default_factory=dict)
    # The environment.
    variables: Mapping[str, str] = field(default_factory=dict)
    system: str = "Linux"
    # Of multiprocessing.
    start_method: str = "fork"
    # Cores that this process may use.
    cores: int = 8
    # Cores that the container grants.
    quota: float | None = None
    # Bytes.
    memory: int | None = None
    # Of the container, bytes.
    memory_limit: int | None = None
    # Bytes of /dev/shm.
    shm_total: int | None = None
    shm_free: int | None = None
    # Open files per process.
    files_soft: int | None = None
    files_hard: int | None = None
    temp: str = "/tmp"  # noqa: S108 -- shown, not used
    temp_free: int | None = None
    # vm.overcommit_memory.
    overcommit: int | None = None
    # "always", "madvise", "never".
    huge_pages: str = ""
    # "glibc 2.36".
    libc: str = ""


def this_machine() -> Machine:
    """Return the facts of this machine.

    Reads a few small files. Imports no large libraries, and starts no process.
    """
    import multiprocessing

    import psutil

    from wdsflow.memory.bounds import control_groups

    start_method = multiprocessing.get_start_method(allow_none=True)
    if start_method is None:
        # The default method comes first; get_start_method() alone would set it.
        start_method = multiprocessing.get_all_start_methods()[0]
    shm_total, shm_free = _space("/dev/shm")  # noqa: S108 -- only its size
    temp = tempfile.gettempdir()
    _, temp_free = _space(temp)
    files_soft, files_hard = _file_limits()
    overcommit = _read("/proc/sys/vm/overcommit_memory")
    # Such as "always [madvise] never".
    huge_pages = _read("/sys/kernel/mm/transparent_hugepage/enabled")
    return Machine(
        versions=versions(),
        variables=dict(os.environ),
        system=platform.system(),
        start_method=start_method,
        cores=schedulable_cores(),
        quota=cpu_quota(),
        memory=psutil.virtual_memory().total,
        memory_limit=min((group.limit for group in control_groups()), default=None),
        shm_total=shm_total,
        shm_free=shm_free,
        files_soft=files_soft,
        files_hard=files_hard,
        temp=temp,
        temp_free=temp_free,
        overcommit=int(overcommit) if overcommit.isdigit() else None,
        huge_pages=huge_pages.partition("[")[2].partition("]")[0],
        libc=" ".join(platform.libc_ver()).strip(),
    )


def _read(path: str) -> str:
    """Return the text of a file of the system, "" if there is none."""
    with contextlib.suppress(OSError, ValueError):
        return Path(path).read_text(encoding="ascii").strip()
    return ""


def _space(path: str) -> tuple[int | None, int | None]:
    """Return the size of a file system and its free bytes."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free


def _file_limits() -> tuple[int, int]:
    """Return the soft and the hard limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = UNLIMITED
    if hard == resource.RLIM_INFINITY:
        hard = UNLIMITED
    return soft, hard
