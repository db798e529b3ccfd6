"""Which errors mean that memory was too short, or that a device is lost."""

import errno
import re
from decimal import Decimal

from .exceptions import describe, exception_chain

# Characters of an exception's text that are searched.
_SEARCHED = 10_000
# In lower case; of PyTorch and its backends, cuBLAS and its
# kin, cuDNN, OpenCV, ONNX Runtime, CuPy, XLA, C++.
_SHORT = re.compile(
    r"\b(?:cuda|hip|xpu|backend|gpu)[^\n]{0,40}\bout of memory|resource_exhausted"
    r"|cu[a-z]+_(?:status_)?[a-z_]*(?:alloc_failed|allocation_failed)"
    # A handle takes memory itself, and cuDNN finds no engine where the workspace does not fit.
    r"|cublas_status_not_initialized|cudnn_status_not_supported|unable to find an engine to execute this computation"
    r"|defaultcpuallocator: (?:can't allocate|not enough) memory|cannot allocate memory"
    r"|insufficient memory|failed to allocate memory|bad_alloc"
)
# The texts of cudaGetErrorString for errors after which each call fails until the process ends.
_LOST = re.compile(
    r"device-side assert triggered|illegal memory access|illegal instruction was encountered|misaligned address"
    r"|unspecified launch failure|launch timed out|uncorrectable (?:ecc|nvlink) error|hardware stack error"
    r"|invalid program counter|operation not supported on global/shared address space|context is destroyed"
    r"|(?:cuda|hip) error: unknown error|invalid access of peer gpu memory over nvlink"
    r"|tensor memory not completely freed|mps client has been terminated|external entity outside of cuda"
)
# Their numbers, as cudaError_t and hipError_t.
_LOST_CODES = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999}
_NO_MEMORY_CODE = 2
_LIBRARIES = {"cv2", "onnxruntime", "tensorflow", "jax", "jaxlib", "cupy", "cupy_backends"}
_REQUESTED = re.compile(
    r"(?:tried|unable|failed) to allocate ([\d.]+) ?([kmgtp]i?b|bytes|b)\b", re.IGNORECASE
)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def is_out_of_memory(error: BaseException, outside: BaseException | None = None) -> bool:
    """Return whether an error, or a cause of it, means that the device or host ran out of memory.

    ``outside``: an exception that was handled before; it and its causes are ignored.
    """
    return any(_is_short(cause) for cause in exception_chain(error, outside))


def is_poisoned(error: BaseException, outside: BaseException | None = None) -> bool:
    """Return whether an error means that the device's context is lost.

    Only a new process can then use the device.
    """
    return any(_is_lost(cause) for cause in exception_chain(error, outside))


def requested_bytes(text: str) -> int | None:
    """Return the size of a failed allocation from a PyTorch or NumPy message, None if it has none.

    >>> requested_bytes("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")
    2684354560
    """
    match = _REQUESTED.search(text)
    if match is None:
        return None
    try:
        return int(Decimal(match[1]) * _UNITS[match[2][0].lower()])
    except ArithmeticError:
        # "1.2.3".
        return None


def _is_short(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ in {
        "OutOfMemoryError",
        "ResourceExhaustedError",
    }:
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return _is_technical(error) and (
        _code(error) == _NO_MEMORY_CODE or bool(_SHORT.search(_text(error)))
    )


def _is_lost(error: BaseException) -> bool:
    return _is_technical(error) and (
        _code(error) in _LOST_CODES or bool(_LOST.search(_text(error)))
    )


def _is_technical(error: BaseException) -> bool:
    """Return whether the text of an error is trusted.

    A ValueError may quote a caption about memory; trusted classes rarely do.
    """
    return isinstance(error, RuntimeError) or type(error).__module__.partition(".")[0] in _LIBRARIES


def _code(error: BaseException) -> int | None:
    """Return the number of an error of torch.AcceleratorError, PyTorch 2.9 and later."""
    code = (
        getattr(error, "error_code", None) if type(error).__name__ == "AcceleratorError" else None
    )
    return code if isinstance(code, int) else None


def _text(error: BaseException) -> str:
    return describe(error, _SEARCHED).lower()
