"""What is recognised as short memory, and what as a lost device."""

import errno
import sys
import weakref

import numpy as np
import pytest

from wdsflow.memory.batching.oom import (
    chain,
    describe,
    drop_frames,
    is_out_of_memory,
    is_poisoned,
    release,
    requested_bytes,
)

torch = pytest.importorskip("torch")


class Opaque(RuntimeError):
    pass


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of ..."),
        torch.cuda.OutOfMemoryError("HIP out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 5.00 GB, other allocations: 1 GB)."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
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
        OSError(errno.ENOMEM, "Cannot allocate memory"),
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
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_other_errors_are_neither(error):
    assert not is_out_of_memory(error)
    assert not is_poisoned(error)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert'",
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: misaligned address",
        "CUDA error: the launch timed out and was terminated",
        "CUDA error: unknown error",
        "HIP error: an illegal memory access was encountered",
    ],
)
def test_a_lost_device_is_recognised(text):
    error = Opaque("wrapped")
    error.__cause__ = RuntimeError(text)

    assert is_poisoned(error)
    assert not is_poisoned(ValueError(text))


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

    assert len(list(chain(one))) == 2


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

    drop_frames(kept)

    assert held[0]() is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 79.1 GiB", 20 << 20),
        ("Unable to allocate 512. KiB for an array with shape (65536,)", 512 << 10),
        ("you tried to allocate 4096 bytes. Error code 12", 4096),
        ("Failed to allocate 17 bytes in function 'OutOfMemoryError'", 17),
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

    assert describe(Mute()) == "Mute"
    assert len(describe(ValueError("x" * 10_000))) == 500


def test_a_device_that_was_never_used_is_released():
    release("cpu")
    release("cuda:0")
