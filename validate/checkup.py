"""Checks a machine for what breaks or slows training, each with its fix."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from wdsflow.readers.installed_versions import release_numbers, version_conflicts
from wdsflow.text.install import install_extras
from wdsflow.text.shell import Command, command
from wdsflow.text.words import size

from .machine import UNLIMITED, Machine, this_machine

Status = Literal["ok", "info", "warning", "error"]
# Status, message, and the fix if there is one.
CheckOutput = tuple[Status, str] | tuple[Status, str, str]

# Bytes of one image in a batch, float32.
_IMAGE = 3 * 224 * 224 * 4
# OpenCLIP's defaults: 2 batches ahead, 4 workers, 64 images.
_DEFAULT_NEED = 2 * 4 * 64 * _IMAGE
# 8 workers, 256 images.
_USUAL_NEED = 2 * 8 * 256 * _IMAGE
_GIB = 1 << 30
_MALLOC_DEBUG = ("MALLOC_CHECK_", "MALLOC_PERTURB_", "PYTHONMALLOC")
_REWRITES = ("GOPEN_REWRITE", "GOPEN_VERBOSE", "WDS_EPOCH", "WDS_SEED", "OPENCLIP_WDS_")
# Packages whose versions are shown.
_SHOWN = ("python", "open_clip_torch", "webdataset", "torch", "torchvision", "pillow", "numpy")
# Open files of a process: too few for loaders with many workers, enough, and what a fix asks for.
_FEW_FILES, _ENOUGH_FILES, _MANY_FILES = 1024, 4096, 65_536
_OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")
# The first glibc with a tunable for huge pages (glibc.malloc.hugetlb).
_HUGE_PAGES_SINCE = (2, 35)


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


def examine(machine: Machine | None = None) -> list[Diagnosis]:
    """Run all checks on a machine, by default on this one."""
    machine = machine or this_machine()
    diagnoses = []
    for name, check in CHECKS.items():
        diagnoses += [Diagnosis(name, *output) for output in check(machine)]
    return diagnoses


def _installed(machine: Machine) -> Iterator[CheckOutput]:
    installed = [name for name in _SHOWN if name in machine.versions]
    yield "ok", ", ".join(f"{name} {machine.versions[name]}" for name in installed)
    if "open_clip_torch" in machine.versions and "webdataset" not in machine.versions:
        fix = install_extras("openclip")
        yield "error", "open_clip_torch without webdataset: open_clip_train cannot be imported", fix
    elif "open_clip_torch" not in machine.versions:
        yield (
            "info",
            "OpenCLIP is not installed here: shards are judged for 3.3.0 unless --for names another reader",
        )


def _conflicts(machine: Machine) -> Iterator[CheckOutput]:
    known = version_conflicts(machine.versions)
    for conflict in known:
        yield conflict.severity, f"{conflict.versions}: {conflict.why}", conflict.fix
    if not known:
        yield "ok", "no known conflicts"


def _start_method(machine: Machine) -> Iterator[CheckOutput]:
    version = release_numbers(machine.versions.get("open_clip_torch", ""))
    if machine.start_method == "fork":
        yield "ok", "fork"
    elif version and version < (4,):
        # Later Pythons: already among the conflicts.
        if release_numbers(machine.versions.get("python", "")) < (3, 14):
            why = f"{machine.start_method}: OpenCLIP 3's pipeline holds a lambda that worker processes cannot unpickle"
            yield "error", why, "train with --workers 0, or on Linux"
    else:
        yield (
            "info",
            f"{machine.start_method}: everything in a pipeline must be picklable: no lambdas",
        )


def _shared_memory(machine: Machine) -> Iterator[CheckOutput]:
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


def _open_files(machine: Machine) -> Iterator[CheckOutput]:
    soft, hard = machine.files_soft, machine.files_hard
    if soft is None or hard is None:
        return
    if soft >= _ENOUGH_FILES:
        yield "ok", "unlimited" if soft >= UNLIMITED else f"{soft:,}"
        return
    fix = "raise 'nofile' in /etc/security/limits.conf, then log in again"
    if hard >= _ENOUGH_FILES:
        fix = Command(f"ulimit -n {min(hard, _MANY_FILES)}")
    why = "loaders with many workers end with 'Too many open files'"
    yield ("warning" if soft <= _FEW_FILES else "info"), f"{soft:,}: {why}", fix


def _memory(machine: Machine) -> Iterator[CheckOutput]:
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


def _cores(machine: Machine) -> Iterator[CheckOutput]:
    if machine.quota is not None and machine.quota < machine.cores:
        why = f"{machine.cores} visible, but this container may use {machine.quota:g}: more loader workers do not help"
        yield "info", why, f"train with --workers {max(int(machine.quota), 1)}"
    else:
        yield "ok", str(machine.cores)


def _threads(machine: Machine) -> Iterator[CheckOutput]:
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


def _allocator(machine: Machine) -> Iterator[CheckOutput]:
    variables = machine.variables
    for name in _MALLOC_DEBUG:
        if variables.get(name) not in (None, "", "pymalloc", "default"):
            why = f"{name}={variables[name]} is for debugging and slows training down"
            yield "warning", why, Command(f"unset {name}")
    preload = variables.get("LD_PRELOAD", "")
    has_tunables = "glibc.malloc" in variables.get("GLIBC_TUNABLES", "")
    for name in _OTHER_ALLOCATORS:
        if name in preload:
            yield "ok", f"{name} by LD_PRELOAD"
            if has_tunables:
                fix = Command("unset GLIBC_TUNABLES")
                yield "info", f"GLIBC_TUNABLES has no effect on {name}", fix
            return
    malloc_names = [name for name in variables if name.startswith("MALLOC_")]
    names = sorted(name for name in malloc_names if name not in _MALLOC_DEBUG)
    if has_tunables:
        names.append("GLIBC_TUNABLES")
    library, _, version = machine.libc.partition(" ")
    has_huge_pages = library == "glibc" and release_numbers(version) >= _HUGE_PAGES_SINCE
    if names:
        yield "ok", ", ".join(f"{name}={variables[name]}" for name in names)
    elif has_huge_pages and machine.huge_pages in ("always", "madvise"):
        why = "glibc's defaults; huge pages make Pillow up to 1.4 times as fast on images over 2 megapixels"
        yield "info", why, Command("export GLIBC_TUNABLES=glibc.malloc.hugetlb=1")


def _gpu_allocator(machine: Machine) -> Iterator[CheckOutput]:
    old = machine.variables.get("PYTORCH_CUDA_ALLOC_CONF")
    new = machine.variables.get("PYTORCH_ALLOC_CONF")
    version = machine.versions.get("torch", "")
    why = ""
    if old and new and old != new:
        why = "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF differ, and the version of torch decides which one it reads"
    elif new and not old and () < release_numbers(version) < (2, 10):
        why = (
            f"torch {version} reads only PYTORCH_CUDA_ALLOC_CONF; PYTORCH_ALLOC_CONF has no effect"
        )
    if why:
        yield "warning", why, Command('export PYTORCH_CUDA_ALLOC_CONF="$PYTORCH_ALLOC_CONF"')
    elif setting := old or new:
        yield "ok", setting


def _tensorflow(machine: Machine) -> Iterator[CheckOutput]:
    version = machine.versions.get("tensorflow")
    if not version or "torch" not in machine.versions:
        return
    if machine.variables.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true":
        yield "ok", f"tensorflow {version} next to torch, set to take GPU memory only as needed"
        return
    why = f"tensorflow {version} next to torch: any library that imports it (tensorboard, transformers) takes all GPU memory"
    yield "warning", why, Command("export TF_FORCE_GPU_ALLOW_GROWTH=true USE_TF=0")


def _temporary(machine: Machine) -> Iterator[CheckOutput]:
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


def _rewrites(machine: Machine) -> Iterator[CheckOutput]:
    names = sorted(name for name in machine.variables if name.startswith(_REWRITES))
    if names:
        values = ", ".join(f"{name}={machine.variables[name]}" for name in names)
        why = f"these variables change what webdataset or OpenCLIP reads: {values}"
        yield "info", why, Command(command(["unset", *names]))


# By name; one that does not apply yields nothing.
CHECKS: dict[str, Callable[[Machine], Iterator[CheckOutput]]] = {
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
