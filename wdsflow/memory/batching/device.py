"""Devices as this process uses them: their memory, and a cap on it."""

import contextlib
import ctypes
import gc
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..bounds import host_memory
from ..sizes import parse_size
from ..usage import peak_resident_bytes, reset_peak, resident_bytes
from .attempt import Device

# PyTorch compares a request with its bound before it rounds it up to segments of at most 20 MiB,
# which it then maps.
_SEGMENT = 20 << 20
_PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d+)?)\s*%\s*")


class HostDevice:
    """The CPU as a device.

    Without a limit such as RLIMIT_DATA, no MemoryError is raised: the system kills the process.
    """

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
        """Return total and free bytes of the host, and resident bytes of this process.

        Total and free are those of a tighter bound, if there is one.
        """
        total, free = host_memory()
        return {"free": free, "total": total, "resident": resident_bytes(os.getpid())}

    def start_measuring(self) -> None:
        """Start to measure."""
        reset_peak()
        self._start = resident_bytes(os.getpid())

    def peak_growth(self) -> int:
        """Return the peak of this process since ``start_measuring``, in bytes above the start."""
        return max(0, peak_resident_bytes() - self._start)


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
    """Open a device by name.

    ``memory`` limits how much of its memory this process uses, such as "8GiB" or "80%".
    """
    check_cap(name, memory)
    if _is_cpu(name):
        return HostDevice()
    return TorchDevice(name, cap_memory(name, memory) if memory is not None else None)


def check_cap(name: str, memory: str | None) -> None:
    """Raise ValueError if ``memory`` is neither a size nor a share, or the device is the CPU."""
    if memory is not None and _is_cpu(name):
        raise ValueError(f"{memory!r} caps the memory of a GPU; the device is the CPU")
    if memory is not None:
        parse_memory_cap(memory, 1 << 62)


def _is_cpu(name: str) -> bool:
    return name.partition(":")[0] == "cpu"


def parse_memory_cap(memory: str, total: int) -> int:
    """Return bytes for a size or a share of ``total``, at most ``total``.

    Raises ValueError for other text.

    >>> parse_memory_cap("50%", 1000), parse_memory_cap("100B", 1000), parse_memory_cap("1GiB", 1000)
    (500, 100, 1000)
    """
    match = _PERCENT.fullmatch(memory)
    if match is not None and float(match[1]) <= 100:
        size = int(total * float(match[1]) / 100)
    elif memory.strip().endswith("%"):
        raise ValueError(f"{memory!r} is not a share; write '80%', or a size such as '8GiB'")
    else:
        size = parse_size(memory)
    if size < 1:
        raise ValueError(f"{memory!r} leaves no memory")
    return min(size, total)


def cap_memory(device: str, memory: str) -> int:
    """Bound PyTorch's memory on a device in this process; return the bytes.

    Beyond them, on CUDA up to 20 MiB earlier, it raises torch.OutOfMemoryError. The CUDA context,
    some hundred MiB, comes on top.
    """
    import torch

    if device.startswith("mps"):
        total = int(torch.mps.recommended_max_memory())
        size = parse_memory_cap(memory, total)
        torch.mps.set_per_process_memory_fraction(size / total)
        return size
    total = int(torch.cuda.mem_get_info(device)[1])
    size = parse_memory_cap(memory, total)
    checked = max(size - _SEGMENT, size // 2)
    torch.cuda.set_per_process_memory_fraction(checked / total, device)
    return size


class TorchDevice:
    """A CUDA device ("cuda:1") or Apple's GPU ("mps"), as this process sees it.

    ``cap``: limit in bytes, None without one.
    """

    def __init__(self, name: str, cap: int | None = None) -> None:
        self.name = name
        self.cap = cap
        self._start = 0

    def release(self) -> None:
        """Collect garbage and empty the device's cache.

        Raises errors of the device if its context is lost.
        """
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
        """Return memory in bytes, of the device and of this process.

        "free" and "total" cover all processes; "reserved" and "allocated" are of this one.

        "fragmented" is reserved less allocated; "available" is the limit for this process, also by
        "cap" if there is one.
        """
        import torch

        if self._mps:
            total = int(torch.mps.recommended_max_memory())
            reserved = int(torch.mps.driver_allocated_memory())
            free = max(0, total - reserved)
            allocated = int(torch.mps.current_allocated_memory())
        else:
            free, total = (int(size) for size in torch.cuda.mem_get_info(self.name))
            reserved = int(torch.cuda.memory_reserved(self.name))
            allocated = int(torch.cuda.memory_allocated(self.name))
        fragmented = max(0, reserved - allocated)
        available = free + fragmented
        if self.cap is not None:
            available = min(available, max(0, self.cap - allocated))
        memory = {
            "free": free,
            "total": total,
            "reserved": reserved,
            "allocated": allocated,
            "fragmented": fragmented,
            "available": available,
        }
        if self.cap is not None:
            memory["cap"] = self.cap
        return memory

    def start_measuring(self) -> None:
        """Start to measure."""
        import torch

        if not self._mps:
            torch.cuda.reset_peak_memory_stats(self.name)
        self._start = self._allocated(torch, most=False)

    def peak_growth(self) -> int:
        """Return the peak since ``start_measuring``, in bytes above the start.

        On "mps" it is the present value.
        """
        import torch

        return max(0, self._allocated(torch, most=True) - self._start)

    @property
    def _mps(self) -> bool:
        return self.name.startswith("mps")

    def _allocated(self, torch: Any, *, most: bool) -> int:
        if self._mps:
            return int(torch.mps.current_allocated_memory())
        if most:
            return int(torch.cuda.max_memory_allocated(self.name))
        return int(torch.cuda.memory_allocated(self.name))


class MeasuredDevice(Device, Protocol):
    """A device that also measures the memory of a run."""

    def start_measuring(self) -> None:
        """Start to measure."""

    def peak_growth(self) -> int:
        """Return the peak since ``start_measuring``, in bytes above the start."""
