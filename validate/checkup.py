"""The facts of a machine that matter for training, and checks for what breaks or slows it, each with its fix."""

import contextlib
import os
import platform
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wdsflow.engines.site import cpu_quota, shown_cores
from wdsflow.readers.installed_versions import conflicts, release, versions
from wdsflow.text.install import install_extras
from wdsflow.text.shell import Command, command
from wdsflow.text.words import size

Status = Literal["ok", "info", "warning", "error"]
# Bytes of one image in a batch, float32.
_IMAGE = 3 * 224 * 224 * 4
# OpenCLIP's defaults: 2 batches ahead, 4 workers, 64 images.
_DEFAULT_NEED = 2 * 4 * 64 * _IMAGE
# 8 workers, 256 images.
_USUAL_NEED = 2 * 8 * 256 * _IMAGE
_GIB = 1 << 30
_MALLOC_DEBUG = ("MALLOC_CHECK_", "MALLOC_PERTURB_", "PYTHONMALLOC")
_REWRITES = ("GOPEN_REWRITE", "GOPEN_VERBOSE", "WDS_EPOCH", "WDS_SEED", "OPENCLIP_WDS_")


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
    """Return the facts of this machine. Reads a few small files, imports nothing heavy, starts no process."""
    import multiprocessing

    import psutil

    from wdsflow.memory.bounds import control_groups

    # The default method comes first; get_start_method() alone would set it.
    start_method = (
        multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0]
    )
    shm_total, shm_free = _space("/dev/shm")  # noqa: S108 -- only its size
    soft, hard = _file_limits()
    temp, overcommit = tempfile.gettempdir(), _read("/proc/sys/vm/overcommit_memory")
    return Machine(
        versions=versions(),
        variables=dict(os.environ),
        system=platform.system(),
        start_method=start_method,
        cores=shown_cores(),
        quota=cpu_quota(),
        memory=psutil.virtual_memory().total,
        memory_limit=min((each.most for each in control_groups()), default=None),
        shm_total=shm_total,
        shm_free=shm_free,
        files_soft=soft,
        files_hard=hard,
        temp=temp,
        temp_free=_space(temp)[1],
        overcommit=int(overcommit) if overcommit.isdigit() else None,
        huge_pages=_read("/sys/kernel/mm/transparent_hugepage/enabled")
        .partition("[")[2]
        .partition("]")[0],
        libc=" ".join(platform.libc_ver()).strip(),
    )


def _read(path: str) -> str:
    with contextlib.suppress(OSError, ValueError):
        return Path(path).read_text(encoding="ascii").strip()
    return ""


def _space(path: str) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free


def _file_limits() -> tuple[int, int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return UNLIMITED if soft == unlimited else soft, UNLIMITED if hard == unlimited else hard


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check. ``fix`` is a Command, or words if there is none."""

    name: str
    status: Status
    message: str
    fix: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        fix = {"fix": self.fix, "pasteable": isinstance(self.fix, Command)}
        return {"name": self.name, "status": self.status, "message": self.message, **fix}


# Status, message, and the fix if there is one.
CheckResult = tuple[Status, str] | tuple[Status, str, str]


def examine(machine: Machine | None = None) -> list[Diagnosis]:
    """Run all checks on a machine, by default on this one."""
    machine = machine or this_machine()
    return [Diagnosis(name, *result) for name, check in CHECKS.items() for result in check(machine)]


def _installed(machine: Machine) -> Iterator[CheckResult]:
    shown = ("python", "open_clip_torch", "webdataset", "torch", "torchvision", "pillow", "numpy")
    yield (
        "ok",
        ", ".join(f"{name} {machine.versions[name]}" for name in shown if name in machine.versions),
    )
    if "open_clip_torch" in machine.versions and "webdataset" not in machine.versions:
        fix = install_extras("openclip")
        yield "error", "open_clip_torch without webdataset: open_clip_train cannot be imported", fix
    elif "open_clip_torch" not in machine.versions:
        yield (
            "info",
            "OpenCLIP is not installed here: shards are judged for 3.3.0 unless --for names another reader",
        )


def _conflicts(machine: Machine) -> Iterator[CheckResult]:
    found = conflicts(machine.versions)
    for conflict in found:
        yield conflict.severity, f"{conflict.versions}: {conflict.why}", conflict.fix
    if not found:
        yield "ok", "no known conflicts"


def _start_method(machine: Machine) -> Iterator[CheckResult]:
    version = release(machine.versions.get("open_clip_torch", ""))
    if machine.start_method == "fork":
        yield "ok", "fork"
    elif version and version < (4,):
        # Later Pythons: already among the conflicts.
        if release(machine.versions.get("python", "")) < (3, 14):
            why = f"{machine.start_method}: OpenCLIP 3's pipeline holds a lambda that worker processes cannot unpickle"
            yield "error", why, "train with --workers 0, or on Linux"
    else:
        yield (
            "info",
            f"{machine.start_method}: everything in a pipeline must be picklable: no lambdas",
        )


def _shared_memory(machine: Machine) -> Iterator[CheckResult]:
    if machine.shm_total is None or machine.shm_free is None:
        return
    space = f"{size(machine.shm_free)} free of {size(machine.shm_total)} in /dev/shm"
    fix = "enlarge it: in Docker with --shm-size=16g or --ipc=host, otherwise as root with mount -o remount,size=16G /dev/shm"
    if machine.shm_free < _DEFAULT_NEED:
        why = f"OpenCLIP's default of 4 workers x 64 images needs {size(_DEFAULT_NEED)} per rank: workers die of 'Bus error'"
        yield "error", f"{space}; {why}", fix
    elif machine.shm_free < _USUAL_NEED:
        yield (
            "warning",
            f"{space}; 8 workers x 256 images of 224 pixels need {size(_USUAL_NEED)} per rank",
            fix,
        )
    else:
        yield "ok", space


def _open_files(machine: Machine) -> Iterator[CheckResult]:
    soft, hard = machine.files_soft, machine.files_hard
    if soft is None or hard is None:
        return
    if soft >= 4096:
        yield "ok", "unlimited" if soft >= UNLIMITED else f"{soft:,}"
        return
    most = min(hard, 65_536)
    more = "raise 'nofile' in /etc/security/limits.conf, then log in again"
    more = Command(f"ulimit -n {most}") if hard >= 4096 else more
    why = "loaders with many workers end with 'Too many open files'"
    yield ("warning" if soft <= 1024 else "info"), f"{soft:,}: {why}", more


def _memory(machine: Machine) -> Iterator[CheckResult]:
    if machine.memory is None:
        return
    limit = machine.memory_limit
    if limit is not None and limit < machine.memory:
        yield "info", f"{size(machine.memory)}, of which this container may use {size(limit)}"
    else:
        yield "ok", size(machine.memory)
    if machine.overcommit == 2:
        why = "vm.overcommit_memory is 2: starting loader workers by fork fails with 'Cannot allocate memory'"
        yield "warning", why, "as root: sysctl vm.overcommit_memory=0"


def _cores(machine: Machine) -> Iterator[CheckResult]:
    if machine.quota is not None and machine.quota < machine.cores:
        why = f"{machine.cores} visible, but this container may use {machine.quota:g}: more loader workers do not help"
        yield "info", why, f"train with --workers {max(int(machine.quota), 1)}"
    else:
        yield "ok", str(machine.cores)


def _threads(machine: Machine) -> Iterator[CheckResult]:
    value = machine.variables.get("OMP_NUM_THREADS")
    if value is None:
        return
    if not value.isdigit() or int(value) < 1:
        yield (
            "warning",
            f"OMP_NUM_THREADS={value} is not a number of threads",
            Command("unset OMP_NUM_THREADS"),
        )
    elif int(value) > machine.cores:
        why = f"OMP_NUM_THREADS={value} with {machine.cores} cores: threads wait for each other"
        yield "warning", why, Command("export OMP_NUM_THREADS=1")
    else:
        yield "ok", f"OMP_NUM_THREADS={value}"


def _allocator(machine: Machine) -> Iterator[CheckResult]:
    variables = machine.variables
    for name in _MALLOC_DEBUG:
        if variables.get(name) not in (None, "", "pymalloc", "default"):
            why = f"{name}={variables[name]} is for debugging and slows training down"
            yield "warning", why, Command(f"unset {name}")
    preload, tunables = variables.get("LD_PRELOAD", ""), variables.get("GLIBC_TUNABLES", "")
    other = next((name for name in ("jemalloc", "tcmalloc", "mimalloc") if name in preload), "")
    if other:
        yield "ok", f"{other} by LD_PRELOAD"
        if "glibc.malloc" in tunables:
            yield (
                "info",
                f"GLIBC_TUNABLES has no effect on {other}",
                Command("unset GLIBC_TUNABLES"),
            )
        return
    names = sorted(
        name for name in variables if name.startswith("MALLOC_") and name not in _MALLOC_DEBUG
    )
    if "glibc.malloc" in tunables:
        names.append("GLIBC_TUNABLES")
    modern = machine.libc.startswith("glibc") and release(machine.libc.partition(" ")[2]) >= (2, 35)
    if names:
        yield "ok", ", ".join(f"{name}={variables[name]}" for name in names)
    elif modern and machine.huge_pages in ("always", "madvise"):
        why = "glibc's defaults; huge pages make Pillow up to 1.4 times as fast on images over 2 megapixels"
        yield "info", why, Command("export GLIBC_TUNABLES=glibc.malloc.hugetlb=1")


def _gpu_allocator(machine: Machine) -> Iterator[CheckResult]:
    old, new = (
        machine.variables.get("PYTORCH_CUDA_ALLOC_CONF"),
        machine.variables.get("PYTORCH_ALLOC_CONF"),
    )
    version, why = machine.versions.get("torch", ""), ""
    if old and new and old != new:
        why = "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF differ, and the version of torch decides which one it reads"
    elif new and not old and () < release(version) < (2, 10):
        why = (
            f"torch {version} reads only PYTORCH_CUDA_ALLOC_CONF; PYTORCH_ALLOC_CONF has no effect"
        )
    if why:
        yield "warning", why, Command('export PYTORCH_CUDA_ALLOC_CONF="$PYTORCH_ALLOC_CONF"')
    elif either := old or new:
        yield "ok", either


def _tensorflow(machine: Machine) -> Iterator[CheckResult]:
    version = machine.versions.get("tensorflow")
    if version and "torch" in machine.versions:
        why = f"tensorflow {version} next to torch: any library that imports it (tensorboard, transformers) takes all GPU memory"
        if machine.variables.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true":
            yield "ok", f"tensorflow {version} next to torch, set to take GPU memory only as needed"
        else:
            yield "warning", why, Command("export TF_FORCE_GPU_ALLOW_GROWTH=true USE_TF=0")


def _temporary(machine: Machine) -> Iterator[CheckResult]:
    if machine.temp_free is None:
        return
    space = f"{size(machine.temp_free)} free in {machine.temp}"
    if machine.temp_free < _GIB:
        yield (
            "warning",
            f"{space}: caches and checkpoints end half-written",
            "set TMPDIR to a folder on a larger disk",
        )
    else:
        yield "ok", space


def _rewrites(machine: Machine) -> Iterator[CheckResult]:
    found = sorted(name for name in machine.variables if name.startswith(_REWRITES))
    if found:
        values = ", ".join(f"{name}={machine.variables[name]}" for name in found)
        why = f"these variables change what webdataset or OpenCLIP reads: {values}"
        yield "info", why, Command(command(["unset", *found]))


# By name; one that does not apply yields nothing.
CHECKS: dict[str, Callable[[Machine], Iterator[CheckResult]]] = {
    "installed": _installed,
    "versions": _conflicts,
    "start method": _start_method,
    "shared memory": _shared_memory,
    "open files": _open_files,
    "memory": _memory,
    "cores": _cores,
    "threads": _threads,
    "allocator": _allocator,
    "GPU allocator": _gpu_allocator,
    "TensorFlow": _tensorflow,
    "temporary files": _temporary,
    "url variables": _rewrites,
}
