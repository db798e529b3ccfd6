"""What is recognised as short memory, and what as a lost device."""

import errno
import sys
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from wdsflow.memory.batching.device import open_device
from wdsflow.memory.batching.exceptions import describe, drop_frames, exception_chain, text_of
from wdsflow.memory.batching.memory_errors import is_out_of_memory, is_poisoned, requested_bytes

torch = pytest.importorskip("torch")


class Opaque(RuntimeError):
    pass


def raised_by(module: str, name: str, text: str) -> Exception:
    """Return an exception of a library that is not installed."""
    error: Exception = type(name, (Exception,), {"__module__": module})(text)
    return error


def coded(code: object) -> RuntimeError:
    error: RuntimeError = torch.AcceleratorError("CUDA error")
    error.error_code = code  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of ..."
        ),
        torch.cuda.OutOfMemoryError("HIP out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"
        ),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("HIP error: out of memory"),
        RuntimeError("XPU out of memory. Tried to allocate 16.00 MiB."),
        RuntimeError("GPU out of memory"),
        RuntimeError("cudaMalloc failed: out of memory"),
        RuntimeError(
            "CUDA failure 2: out of memory ; GPU=0 ; hostname=node ; expr=cudaMalloc((void**)&p, size);"
        ),
        RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        RuntimeError(
            "MPS backend out of memory (MPS allocated: 5.00 GB, other allocations: 1 GB)."
        ),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError(
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
        ),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if ..."),
        RuntimeError("GET was unable to find an engine to execute this computation"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you ..."
        ),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes."),
        RuntimeError("unable to mmap 1024 bytes from file <f>: Cannot allocate memory (12)"),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        raised_by(
            "cv2",
            "error",
            "(-4:Insufficient memory) Failed to allocate 17 bytes in function 'OutOfMemoryError'",
        ),
        raised_by(
            "onnxruntime.capi",
            "Fail",
            "BFCArena: Failed to allocate memory for requested buffer of size 8",
        ),
        raised_by("tensorflow.errors", "InternalError", "RESOURCE_EXHAUSTED: out of space"),
        raised_by(
            "jax.errors", "JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"
        ),
        raised_by(
            "jaxlib.xla_extension",
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Attempting to reserve 8 bytes",
        ),
        raised_by("cupy.cuda.memory", "OutOfRange", "cudaErrorMemoryAllocation: out of memory"),
        raised_by(
            "cupy_backends.cuda.api.runtime",
            "CUDARuntimeError",
            "cudaErrorMemoryAllocation: out of memory",
        ),
        raised_by("elsewhere", "OutOfMemoryError", "full"),
        raised_by("elsewhere", "ResourceExhaustedError", "full"),
        coded(2),
    ],
    ids=lambda error: str(error)[:40],
)
def test_short_memory_is_recognised_directly_and_behind_another_error(error):
    assert is_out_of_memory(error)
    assert not is_poisoned(error)
    for link in ("__cause__", "__context__"):
        above = Opaque("the model failed")
        setattr(above, link, error)
        higher = ValueError("sample 7")
        higher.__context__ = above
        assert is_out_of_memory(higher)


def test_real_failed_allocations_are_recognised():
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(1 << 50)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(1 << 50)

    assert is_out_of_memory(of_torch.value)
    assert is_out_of_memory(of_numpy.value)
    assert requested_bytes(str(of_torch.value)) == 1 << 52
    assert requested_bytes(str(of_numpy.value)) == 1 << 53


@pytest.mark.parametrize(
    "error",
    [
        ValueError("caption: 'CUDA out of memory'"),
        KeyError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)"),
        RuntimeError("Expected all tensors to be on the same device"),
        RuntimeError("the sample speaks of CUDA\nand of a man who ran out of memory"),
        OSError(errno.ENOSPC, "No space left on device"),
        raised_by("my.cv2", "error", "Insufficient memory"),
        coded(1),
        coded(3),
        coded("700"),
    ],
)
def test_other_errors_are_neither(error):
    assert not is_out_of_memory(error)
    assert not is_poisoned(error)


# What cudaGetErrorString says of each error after which
# CUDA's manual asks for a new process, and three more.
LOST = {
    214: "uncorrectable ECC error encountered",
    220: "uncorrectable NVLink error detected during the execution",
    226: "Invalid access of peer GPU memory over nvlink or a hardware error",
    700: "an illegal memory access was encountered",
    702: "the launch timed out and was terminated",
    709: "context is destroyed",
    710: "device-side assert triggered",
    714: "hardware stack error",
    715: "an illegal instruction was encountered",
    716: "misaligned address",
    717: "operation not supported on global/shared address space",
    718: "invalid program counter",
    719: "unspecified launch failure",
    721: "tensor memory not completely freed",
    810: "the MPS client has been terminated by the server",
    911: "an async error has occured in external entity outside of CUDA",
    999: "unknown error",
}


@pytest.mark.parametrize("kind", ["CUDA", "HIP"])
@pytest.mark.parametrize("text", LOST.values())
def test_a_lost_device_is_recognised_by_what_is_said(kind, text):
    error = Opaque("wrapped")
    error.__cause__ = RuntimeError(f"{kind} error: {text}\nSearch for it in the manual")

    assert is_poisoned(error)
    assert not is_out_of_memory(error)
    assert not is_poisoned(ValueError(f"{kind} error: {text}"))


def test_a_lost_device_is_recognised_by_the_number_of_its_error():
    assert {code for code in range(1100) if is_poisoned(coded(code))} == LOST.keys()
    other = RuntimeError("CUDA error")
    other.error_code = 700  # type: ignore[attr-defined]
    assert not is_poisoned(other)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: invalid device ordinal",
        "CUDA error: invalid argument",
        "CUDA error: too many resources requested for launch",
        "CUDA error: operation not supported",
        "CUDA error: no kernel image is available for execution on the device",
        "unknown error",
    ],
)
def test_an_error_after_which_the_device_still_works_is_not_taken_for_a_lost_one(text):
    assert not is_poisoned(RuntimeError(text))


def test_an_error_that_the_caller_was_handling_does_not_count():
    def handle(outside: BaseException) -> None:
        try:
            raise outside
        except MemoryError:
            raise ValueError("a bad sample")  # noqa: B904 - the link is what this is about

    outside = MemoryError()
    with pytest.raises(ValueError, match="sample") as caught:
        handle(outside)

    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(caught.value, outside)


def test_a_chain_that_bites_its_tail_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__, two.__cause__ = two, one, one

    assert len(list(exception_chain(one))) == 2

    one.__context__, one.__cause__ = MemoryError(), two
    assert is_out_of_memory(one)


def test_what_only_looks_like_a_group_is_looked_into_as_far_as_it_is_one():
    odd = ValueError("odd")
    odd.exceptions = (MemoryError(), "text")  # type: ignore[attr-defined]

    assert is_out_of_memory(odd)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no exception groups")
def test_short_memory_in_a_group_is_recognised():
    group = eval("ExceptionGroup('several', [ValueError('one'), MemoryError()])")

    assert is_out_of_memory(group)


class Held:
    pass


def test_what_frames_hold_is_let_go_while_the_exception_lives():
    held = []

    def run() -> None:
        tensor = Held()
        held.append(weakref.ref(tensor))
        try:
            raise MemoryError
        except MemoryError as error:
            raise Opaque("model") from error

    try:
        run()
    except Opaque as error:
        kept = error
    assert held[0]() is not None
    traceback = kept.__traceback__  # as a library may keep it

    drop_frames(kept)

    assert held[0]() is None
    assert traceback is not None
    assert [each.__traceback__ for each in exception_chain(kept)] == [None, None]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 79.1 GiB", 20 << 20),
        ("Unable to allocate 512. KiB for an array with shape (65536,)", 512 << 10),
        ("you tried to allocate 4096 bytes. Error code 12", 4096),
        ("Failed to allocate 17 bytes in function 'OutOfMemoryError'", 17),
        *(
            (f"Tried to allocate 1.50 {unit}iB", 3 << power)
            for unit, power in zip("KMGTP", (9, 19, 29, 39, 49), strict=True)
        ),
        ("Tried to allocate 17 B", 17),
        ("Tried to allocate 3 GB", 3 << 30),
        ("Tried to allocate 1.2.3 GiB", None),
        ("out of memory", None),
    ],
)
def test_the_size_that_was_asked_for_is_read(text, size):
    assert requested_bytes(text) == size


def test_an_exception_without_a_readable_text_is_named():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert (describe(Mute()), text_of(Mute())) == ("Mute", "")
    assert len(describe(ValueError("x" * 10_000))) == 500


@pytest.mark.deep
@pytest.mark.parametrize(
    ("device", "calls"),
    [
        ("cpu", []),
        ("cuda:1", ["cuda synchronizes cuda:1", "cuda is on cuda:1", "cuda empties its cache"]),
        ("mps", ["mps synchronizes", "mps empties its cache"]),
        ("xpu", []),
    ],
)
def test_garbage_and_cached_memory_of_the_device_are_given_back(monkeypatch, device, calls):
    """There is no device here: what torch would be asked to do is noted."""
    seen: list[str] = []

    def note(text: str) -> Any:
        def call(*given: str) -> nullcontext[None]:
            seen.append(" ".join((text, *given)))
            return nullcontext()

        return call

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", note("cuda is on"))
    for name, module in (("cuda", torch.cuda), ("mps", torch.mps)):
        monkeypatch.setattr(module, "synchronize", note(f"{name} synchronizes"))
        monkeypatch.setattr(module, "empty_cache", note(f"{name} empties its cache"))
    cycle = Held()
    cycle.itself = cycle  # type: ignore[attr-defined]
    gone = weakref.ref(cycle)
    del cycle

    open_device(device).release()

    assert gone() is None
    assert seen == calls


def test_memory_of_the_host_is_given_back_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    open_device("cpu").release()


def test_a_device_that_was_never_used_is_left_alone():
    before = torch.cuda.is_initialized()
    open_device("cuda:0").release()
    assert torch.cuda.is_initialized() is before
