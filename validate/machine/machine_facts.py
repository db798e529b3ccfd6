"""The facts of this machine that matter for a training loader: limits, memory, variables, versions."""

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.engines.site import cpu_quota, shown_cores
from wdsflow.readers.installed_versions import versions

UNLIMITED = 1 << 62  # bytes or files; limits at least this high count as none


@dataclass(frozen=True, slots=True)
class Machine:
    """The input of ``doctor``. ``None``: unknown on this system."""

    versions: Mapping[str, str] = field(default_factory=dict)  # distribution -> version
    variables: Mapping[str, str] = field(default_factory=dict)  # the environment
    system: str = "Linux"
    start_method: str = "fork"  # of multiprocessing
    cores: int = 8  # cores that this process may use
    quota: float | None = None  # cores that the container grants
    memory: int | None = None  # bytes
    memory_limit: int | None = None  # of the container, bytes
    shm_total: int | None = None  # bytes of /dev/shm
    shm_free: int | None = None
    files_soft: int | None = None  # open files per process
    files_hard: int | None = None
    temp: str = "/tmp"  # noqa: S108 -- shown, not used
    temp_free: int | None = None
    overcommit: int | None = None  # vm.overcommit_memory
    huge_pages: str = ""  # "always", "madvise", "never"
    libc: str = ""  # "glibc 2.36"


def this_machine() -> Machine:
    """Return the facts of this machine. Reads a few small files, imports nothing heavy, starts no process."""
    from wdsflow.memory.usage import control_groups

    shm_total, shm_free = _space("/dev/shm")  # noqa: S108 -- the very folder
    soft, hard = _open_files()
    temp = tempfile.gettempdir()
    return Machine(
        versions=versions(),
        variables=dict(os.environ),
        system=platform.system(),
        start_method=_start_method(),
        cores=shown_cores(),
        quota=cpu_quota(),
        memory=_memory(),
        memory_limit=min((each.most for each in control_groups()), default=None),
        shm_total=shm_total,
        shm_free=shm_free,
        files_soft=soft,
        files_hard=hard,
        temp=temp,
        temp_free=_space(temp)[1],
        overcommit=_number("/proc/sys/vm/overcommit_memory"),
        huge_pages=_chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        libc=" ".join(platform.libc_ver()).strip(),
    )


def _read(path: str) -> str:
    with contextlib.suppress(OSError, ValueError):
        return Path(path).read_text(encoding="ascii").strip()
    return ""


def _number(path: str) -> int | None:
    text = _read(path)
    return int(text) if text.isdigit() else None


def _chosen(path: str) -> str:
    """Return the word in brackets: ``always [madvise] never``."""
    return _read(path).partition("[")[2].partition("]")[0]


def _space(path: str) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free


def _open_files() -> tuple[int | None, int | None]:
    try:
        import resource
    except ImportError:  # Windows
        return None, None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return UNLIMITED if soft == unlimited else soft, UNLIMITED if hard == unlimited else hard


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _start_method() -> str:
    import multiprocessing

    # The default comes first; asking for the current method would set it.
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
