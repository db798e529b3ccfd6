"""The devices to use, the memory of a device or the host, and a probe of the memory of one item."""

import contextlib
import ctypes
import gc
import glob
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wdsflow.memory.sizes import format_size, parse_size
from wdsflow.memory.usage import forget_peak, host_memory, peak, resident

from .attempt import Device, describe, drop_frames, is_out_of_memory, requested_bytes

SETTING = "expandable_segments:True"
# The second is the old name of the first. Both: one release ignored the new one for CUDA, and later
# ones may the old.
NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_HIP = "PYTORCH_HIP_ALLOC_CONF"
_FRAMEWORKS = {
    "tensorflow": "takes a whole GPU at its first use unless TF_FORCE_GPU_ALLOW_GROWTH=true is set",
    "jax": "takes three quarters of a GPU at its first use unless XLA_PYTHON_CLIENT_PREALLOCATE=false is set",
    "cupy": "keeps the blocks of its memory pool",
    "paddle": "keeps the blocks of its memory pool",
    "onnxruntime": "keeps the arena of each session that runs on a GPU",
}


def prepare_environment(environ: MutableMapping[str, str] | None = None) -> None:
    """Let PyTorch's allocator grow its segments, against fragmentation, unless the user has configured it.

    Call it before PyTorch is imported; processes started later inherit it.
    """
    environ = os.environ if environ is None else environ
    if not any(name in environ for name in (*NAMES, _HIP)):
        environ.update(dict.fromkeys(NAMES, SETTING))


def other_frameworks() -> dict[str, str]:
    """Return the loaded frameworks other than PyTorch that may hold a GPU, and how they use it."""
    return {name: habit for name, habit in _FRAMEWORKS.items() if name in sys.modules}


class HostDevice:
    """The CPU as a device. Without a limit such as RLIMIT_DATA there is no MemoryError: the system kills the process."""

    name = "cpu"

    def __init__(self) -> None:
        self._start = 0

    def release(self) -> None:
        """Collect garbage, and return free memory of the allocator to the system."""
        gc.collect()
        # Not glibc.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    def check(self) -> None:
        """Do nothing: no error makes the CPU unusable."""

    def memory(self) -> Mapping[str, int]:
        """Return bytes: total and free of the machine, or of a tighter bound; resident of this process."""
        total, free = host_memory()
        return {"free": free, "total": total, "resident": resident(os.getpid())}

    def begin(self) -> None:
        """Start to measure."""
        forget_peak()
        self._start = resident(os.getpid())

    def took(self) -> int:
        """Return the peak of this process since ``begin``, in bytes above the start."""
        return max(0, peak() - self._start)


# NVIDIA, AMD, WSL, Tegra.
_DRIVERS = ("/dev/nvidia*", "/dev/kfd", "/dev/dxg", "/dev/nvhost*", "/dev/nvmap")
_CUDA = re.compile(r"cuda:(0|[1-9]\d{0,3})")
# Compute capability of Ampere.
_FIRST_BF16 = 8.0
# PyTorch compares a request with its bound before it rounds it up to segments of at most 20 MiB,
# which it then maps.
_SEGMENT = 20 << 20
_PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d+)?)\s*%\s*")


def choose(devices: str = "auto") -> list[str]:
    """Return device names: for "auto" all visible CUDA devices, otherwise "mps" or "cpu"; for "cuda" all visible ones.

    A list such as "cuda:0,cuda:2" is returned as it is. Raises ValueError for a device that does
    not exist. It creates no CUDA context, so that processes can still be forked.
    """
    named = [name.strip().lower() for name in devices.split(",")]
    if named == ["cpu"]:
        return named
    cuda, mps = _visible()
    if named == ["auto"]:
        return [f"cuda:{index}" for index in range(cuda)] or (["mps"] if mps else ["cpu"])
    if named == ["cuda"] and cuda:
        return [f"cuda:{index}" for index in range(cuda)]
    for name in named:
        found = _CUDA.fullmatch(name)
        if not (name == "cpu" or (name == "mps" and mps) or (found and int(found[1]) < cuda)):
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
            raise ValueError(
                f"no such device as {name!r}: there are {cuda} CUDA devices{because}{', mps' if mps else ''} and cpu"
            )
    if len(set(named)) < len(named):
        raise ValueError(f"a device is named twice: {devices!r}")
    return named


def _visible() -> tuple[int, bool]:
    # Without a driver there is no device; importing PyTorch takes seconds and 200 MB.
    drivers = (
        sys.platform != "linux"
        or os.environ.get("CUDA_VISIBLE_DEVICES")
        or any(map(glob.glob, _DRIVERS))
    )
    if not drivers or importlib.util.find_spec("torch") is None:
        return 0, False
    import torch

    # By NVML if possible; torch.cuda.is_available() would start CUDA, and a forked child could not
    # use it then.
    return torch.cuda.device_count(), torch.backends.mps.is_available()


def computes_bf16(devices: str) -> bool:
    """Return whether ``devices``, as for ``choose``, are CUDA devices that compute in bfloat16: capability 8.0 or more.

    All visible GPUs must. NVIDIA's driver tells, through nvidia-smi: PyTorch would create a CUDA
    context to ask. False without that command, as for AMD's GPUs. Raises ValueError for a device
    that does not exist.
    """
    if not all(name.startswith("cuda") for name in choose(devices)):
        return False
    command = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        rows = [
            [cell.strip() for cell in line.split(",")]
            for line in done.stdout.splitlines()
            if line.strip()
        ]
        capabilities = {uuid: float(capability) for uuid, capability in rows}
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
    # Numbers are not looked up: CUDA may count GPUs in another order than nvidia-smi.
    named = [
        name.strip()
        for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if name.strip()
    ]
    visible = [found for uuid, found in capabilities.items() if any(map(uuid.startswith, named))]
    found = visible if len(visible) == len(named) and visible else list(capabilities.values())
    return bool(found) and min(found) >= _FIRST_BF16


@contextlib.contextmanager
def current_device(name: str) -> Iterator[None]:
    """Make a CUDA device the one that this thread's calls of PyTorch use; do nothing for others.

    Attention runs without cuDNN, which PyTorch prefers on some GPUs: it makes a new plan for each
    shape of a batch, which took half of the time of a small CLIP whose captions have many lengths.
    """
    if not name.startswith("cuda"):
        yield
        return
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    # Has incomplete types.
    device: Any = torch.cuda.device(name)
    with sdpa_kernel(kernels):
        device.__enter__()
        try:
            yield
        finally:
            # Of a lost device: the error of the block says so.
            with contextlib.suppress(RuntimeError):
                device.__exit__(None, None, None)


def open_device(name: str, memory: str | None = None) -> "HostDevice | TorchDevice":
    """Return the device of a name; ``memory`` caps its use by this process, such as "8GiB" or "80%"."""
    check_cap(name, memory)
    if _is_cpu(name):
        return HostDevice()
    return TorchDevice(name, cap(name, memory) if memory is not None else None)


def check_cap(name: str, memory: str | None) -> None:
    """Raise ValueError if ``memory`` is neither a size nor a share, or the device is the CPU."""
    if memory is not None and _is_cpu(name):
        raise ValueError(f"{memory!r} caps the memory of a GPU; the device is the CPU")
    if memory is not None:
        share(memory, 1 << 62)


def _is_cpu(name: str) -> bool:
    return name.partition(":")[0] == "cpu"


def share(memory: str, total: int) -> int:
    """Return bytes for a size or a share of ``total``; at most ``total``. Raises ValueError for other text.

    >>> share("50%", 1000), share("100B", 1000), share("1GiB", 1000)
    (500, 100, 1000)
    """
    found = _PERCENT.fullmatch(memory)
    size = int(total * float(found[1]) / 100) if found and float(found[1]) <= 100 else None
    if size is None and memory.strip().endswith("%"):
        raise ValueError(f"{memory!r} is not a share; write '80%', or a size such as '8GiB'")
    if size is None:
        size = parse_size(memory)
    if size < 1:
        raise ValueError(f"{memory!r} leaves no memory")
    return min(size, total)


def cap(device: str, memory: str) -> int:
    """Bound PyTorch's memory on a device in this process; return the bytes.

    Beyond them, on CUDA up to 20 MiB earlier, it raises torch.OutOfMemoryError. The CUDA context,
    some hundred MiB, comes on top.
    """
    import torch

    if device.startswith("mps"):
        total = int(torch.mps.recommended_max_memory())
        size = share(memory, total)
        torch.mps.set_per_process_memory_fraction(size / total)
        return size
    total = int(torch.cuda.mem_get_info(device)[1])
    size = share(memory, total)
    checked = max(size - _SEGMENT, size // 2)
    torch.cuda.set_per_process_memory_fraction(checked / total, device)
    return size


class TorchDevice:
    """A CUDA device ("cuda:1") or Apple's ("mps") as this process sees it. ``cap``: bytes, where there is one."""

    def __init__(self, name: str, cap: int | None = None) -> None:
        self.name = name
        self.cap = cap
        self._start = 0

    def release(self) -> None:
        """Collect garbage and empty the cache. Raises errors of the device if its context is lost."""
        import torch

        # In part without types.
        cuda: Any = torch.cuda
        gc.collect()
        if self._mps:
            torch.mps.synchronize()
            torch.mps.empty_cache()
        elif cuda.is_initialized():
            cuda.synchronize(self.name)
            with cuda.device(self.name):
                cuda.empty_cache()

    def check(self) -> None:
        """Wait for the device. Raises if the context is lost."""
        import torch

        torch.mps.synchronize() if self._mps else torch.cuda.synchronize(self.name)

    def memory(self) -> Mapping[str, int]:
        """Return bytes: free and total of the device, of all processes; reserved and allocated by this one.

        "fragmented" is reserved less allocated; "available" is the limit for this process, also by
        "cap" if there is one.
        """
        import torch

        if self._mps:
            total, reserved = (
                int(torch.mps.recommended_max_memory()),
                int(torch.mps.driver_allocated_memory()),
            )
            free, allocated = max(0, total - reserved), int(torch.mps.current_allocated_memory())
        else:
            free, total = (int(size) for size in torch.cuda.mem_get_info(self.name))
            reserved = int(torch.cuda.memory_reserved(self.name))
            allocated = int(torch.cuda.memory_allocated(self.name))
        fragmented = max(0, reserved - allocated)
        available = free + fragmented
        if self.cap is not None:
            available = min(available, max(0, self.cap - allocated))
        found = {"free": free, "total": total, "reserved": reserved, "allocated": allocated}
        found |= {"fragmented": fragmented, "available": available}
        return found if self.cap is None else {**found, "cap": self.cap}

    def begin(self) -> None:
        """Start to measure."""
        import torch

        if not self._mps:
            torch.cuda.reset_peak_memory_stats(self.name)
        self._start = self._allocated(torch, most=False)

    def took(self) -> int:
        """Return the peak since ``begin``, in bytes above the start; on "mps" the present value."""
        import torch

        return max(0, self._allocated(torch, most=True) - self._start)

    @property
    def _mps(self) -> bool:
        return self.name.startswith("mps")

    def _allocated(self, torch: Any, *, most: bool) -> int:
        if self._mps:
            return int(torch.mps.current_allocated_memory())
        return int(
            torch.cuda.max_memory_allocated(self.name)
            if most
            else torch.cuda.memory_allocated(self.name)
        )


class MeasuredDevice(Device, Protocol):
    """A device that also measures the memory of a run."""

    def begin(self) -> None:
        """Start to measure."""

    def took(self) -> int:
        """Return the peak since ``begin``, in bytes above the start."""


@dataclass(frozen=True)
class Probe:
    """The memory of a single item of the largest cost.

    ``took``: the peak in bytes above the start; if it does not fit, with the last request, so it
    needs at least as many. ``memory``: bytes of the device by name, after all was freed.
    """

    fits: bool
    cost: int
    took: int
    memory: Mapping[str, int]
    detail: str = ""

    @property
    def free(self) -> int | None:
        """Bytes that this process could still get; None if it is not known."""
        return self.memory.get("available", self.memory.get("free"))

    def ceiling(self, budget: int) -> int | None:
        """Return the cost of the batch that about fills a budget in bytes; None if the item took too little."""
        return max(self.cost, self.cost * budget // self.took) if self.took else None

    def message(self, model: str) -> str:
        """Return one sentence for users."""
        what = f"{model}: one item of the largest size, {self.cost:,} pixels or tokens,"
        free = (
            "an unknown number of bytes is"
            if self.free is None
            else f"{format_size(self.free)} are"
        )
        cap = f" under the cap of {format_size(self.memory['cap'])}" if "cap" in self.memory else ""
        if self.fits:
            return f"{what} takes {format_size(self.took)}; {free} free{cap}"
        return f"{what} does not fit: it needs at least {format_size(self.took)}, {free} free{cap} ({self.detail})"


def probe(
    run: Callable[[Sequence[Any]], Sequence[Any]], item: Any, cost: int, device: MeasuredDevice
) -> Probe:
    """Run one item, twice if the first time it does not fit, and return the measurement.

    Other exceptions of ``run`` pass through: a model that cannot run its own largest item cannot
    run.
    """
    took, detail = 0, ""
    for _ in range(2):
        device.release()
        device.begin()
        error = _error_of(run, item)
        took = max(took, device.took() + (requested_bytes(error) or 0 if error else 0))
        if error is None:
            return Probe(fits=True, cost=cost, took=device.took(), memory=_after(device))
        detail = error
    return Probe(fits=False, cost=cost, took=took, memory=_after(device), detail=detail)


def _error_of(run: Callable[[Sequence[Any]], Sequence[Any]], item: Any) -> str | None:
    outside = sys.exc_info()[1]
    try:
        run([item])
    except Exception as error:
        if not is_out_of_memory(error, outside):
            raise
        text = describe(error)
        drop_frames(error, outside)
        return text
    return None


def _after(device: MeasuredDevice) -> Mapping[str, int]:
    device.release()
    return dict(device.memory())
