"""One attempt at a batch: its outputs or the error, and the failures of items."""

import errno
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Protocol

# Characters of an exception's text.
_KEPT, _LOOKED_AT = 500, 10_000

# In lower case; of PyTorch and its backends, cuBLAS and its kin, cuDNN, OpenCV, ONNX Runtime, CuPy,
# XLA, C++.
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
_ASKED = re.compile(
    r"(?:tried|unable|failed) to allocate ([\d.]+) ?([kmgtp]i?b|bytes|b)\b", re.IGNORECASE
)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def is_out_of_memory(error: BaseException, outside: BaseException | None = None) -> bool:
    """Return whether an error, or one of its causes, means that memory of the device or the host was too short.

    ``outside``: an exception that was handled before; it and its causes are ignored.
    """
    return any(_is_short(each) for each in chain(error, outside))


def is_poisoned(error: BaseException, outside: BaseException | None = None) -> bool:
    """Return whether an error means that the device's context is lost: only a new process can use it."""
    return any(_is_lost(each) for each in chain(error, outside))


def requested_bytes(text: str) -> int | None:
    """Return the size of the failed allocation by the messages of PyTorch and NumPy, None if they do not contain it.

    >>> requested_bytes("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")
    2684354560
    """
    found = _ASKED.search(text)
    try:
        return int(Decimal(found[1]) * _UNITS[found[2][0].lower()]) if found else None
    except ArithmeticError:
        # "1.2.3".
        return None


def describe(error: BaseException, most: int = _KEPT) -> str:
    """Return the class and the text of an exception in one string of at most ``most`` characters."""
    text = text_of(error, most)
    return f"{type(error).__name__}: {text}"[:most] if text else type(error).__name__


def text_of(error: BaseException, most: int = _KEPT) -> str:
    """Return the text of an exception, at most ``most`` characters; "" if it has none, or cannot be printed."""
    try:
        return str(error)[:most]
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        return ""


def drop_frames(error: BaseException, outside: BaseException | None = None) -> None:
    """Clear the frames of an exception, which hold the tensors of a batch; those of ``outside`` stay."""
    for each in chain(error, outside):
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None


def chain(error: BaseException, outside: BaseException | None = None) -> Iterator[BaseException]:
    """Yield an exception, its causes and the members of a group, each once."""
    seen, heap = {id(outside)} if outside else set[int](), [error]
    while heap:
        each = heap.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        # Even if "from None" hides it.
        heap.extend(more for more in (each.__context__, each.__cause__) if more is not None)
        # ExceptionGroup, Python 3.11 and later.
        group = getattr(each, "exceptions", None)
        heap.extend(
            more
            for more in (group if isinstance(group, tuple) else ())
            if isinstance(more, BaseException)
        )


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
    """Return whether the text is trusted: a ValueError may quote a caption about memory, these rarely do."""
    return isinstance(error, RuntimeError) or type(error).__module__.partition(".")[0] in _LIBRARIES


def _code(error: BaseException) -> int | None:
    """Return the number of an error of torch.AcceleratorError, PyTorch 2.9 and later."""
    code = (
        getattr(error, "error_code", None) if type(error).__name__ == "AcceleratorError" else None
    )
    return code if isinstance(code, int) else None


def _text(error: BaseException) -> str:
    return describe(error, _LOOKED_AT).lower()


OUT_OF_MEMORY = "out-of-memory"
POISONED = "poisoned-device"


@dataclass(frozen=True)
class Failure:
    """The result of an item that failed on its own.

    ``slug``: "out-of-memory", "poisoned-device" or "raised-" and the name of the exception's class.
    ``detail`` may contain text from data, to be escaped. ``numbers``: the item's cost, and bytes of
    memory by name.
    """

    slug: str
    detail: str
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)


class OutputsError(ValueError):
    """``run`` did not return one output per item: an error of the model, not of an item."""


class PoisonedError(RuntimeError):
    """The process can no longer use its device; another process must do the rest.

    ``done``: results by position in the items of the call. ``suspects``: positions of the batch
    that ran, to be run ``alone`` next; empty if its only item ran alone, whose ``Failure`` is in
    ``done``. Picklable if the outputs are.
    """

    def __init__(
        self, message: str, done: Mapping[int, Any], suspects: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.done = dict(done)
        self.suspects = suspects

    def __reduce__(
        self,
    ) -> tuple[type["PoisonedError"], tuple[str, dict[int, Any], tuple[int, ...]]]:
        return type(self), (self.message, self.done, self.suspects)


class Device(Protocol):
    """The methods of a device that recovery needs."""

    def release(self) -> None:
        """Free cached memory. Raises if the device is lost."""

    def check(self) -> None:
        """Raise if the device is lost."""

    def memory(self) -> Mapping[str, int]:
        """Return bytes by name, "free" and "total" among them."""


class AttemptTrouble(NamedTuple):
    """An exception, without its frames."""

    kind: Literal["out-of-memory", "poisoned", "raised"]
    # "raised-ValueError".
    slug: str
    # Without the class, which the slug names.
    text: str
    # With it.
    detail: str


def attempt(
    run: Callable[[Sequence[Any]], Sequence[Any]], batch: Sequence[Any]
) -> list[Any] | AttemptTrouble:
    """Return the outputs of a batch, or the trouble. Raises OutputsError if they are not one for each item, or ``run`` does.

    When this returns, no exception is being handled and no frame of ``run`` is held: recovery can
    begin.
    """
    # Of the caller; every exception from here on has it in its chain.
    outside = sys.exc_info()[1]
    try:
        outputs: Any = run(batch)
        unordered = isinstance(outputs, (str, bytes, Mapping, set, frozenset)) or not isinstance(
            outputs, Iterable
        )
        listed = None if unordered else list(outputs)
    except OutputsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad item must cost itself alone, whatever it raises
        trouble = _trouble(error, outside)
        drop_frames(error, outside)
        return trouble
    if listed is None:
        found = "None" if outputs is None else f"a {type(outputs).__name__}"
        raise OutputsError(f"run() returned {found}; it must return a sequence of outputs in order")
    if len(listed) != len(batch):
        raise OutputsError(
            f"run() returned {len(listed):,} outputs for {len(batch):,} items; it must return one for each"
        )
    return listed


def lost(call: Callable[[], object]) -> str | None:
    """Call ``release`` or ``check`` of a device; return the error it raised, None if it works."""
    outside = sys.exc_info()[1]
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a device that cannot be freed cannot be used
        text = describe(error)
        drop_frames(error, outside)
        return text
    return None


def _trouble(error: Exception | SystemExit, outside: BaseException | None) -> AttemptTrouble:
    kind: Literal["out-of-memory", "poisoned", "raised"] = "raised"
    if is_poisoned(error, outside):
        kind = "poisoned"
    elif is_out_of_memory(error, outside):
        kind = "out-of-memory"
    return AttemptTrouble(kind, f"raised-{type(error).__name__}", text_of(error), describe(error))
