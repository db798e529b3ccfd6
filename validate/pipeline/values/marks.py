"""Marks of values in the output of a loader.

Equal contents have equal marks, and a mark shows the kind of its value.

A mark is "kind:digest". Only marks are kept of what a pipeline yields, so that memory does not grow
with its images.
"""

import hashlib
import pickle
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeGuard, cast

KEY = "key:"
NUMBER = "number:"
# Texts and bytes that are too short to belong to one sample only, such as labels.
SHORT = "short:"
TEXT = "text:"
BYTES = "bytes:"
# Of an image, a video or a sound, as pixels or values.
PICTURE = "picture:"
# The same, if all of its bytes are equal: black, or a dummy for samples without an image.
FLAT = "picture:flat:"
ARRAY = "array:"
OTHER = "other:"
# Of an object whose content cannot be read: it is equal to nothing.
OPAQUE = "opaque:"

_SHORT_BYTES = 16
_DIGEST_LETTERS = 16
_PICTURE_DIMENSIONS = 2
# Fewer values, such as those of a bounding box, may well be equal in different samples.
_PICTURE_VALUES = 64
# Shorter vectors are rather embeddings, or tokens and their masks.
_SOUND_VALUES = 1024


class Array(Protocol):
    """A tensor of torch or an array of numpy, without an import of either."""

    ndim: int
    shape: Sequence[int]
    dtype: object

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> object: ...

    def tolist(self) -> object:
        """Return the values as numbers, in lists."""

    def tobytes(self) -> bytes:
        """Return the content; of numpy only."""


def is_array(value: object) -> TypeGuard[Array]:
    """Return whether a value is an array of numpy or a tensor of torch."""
    return all(hasattr(value, name) for name in ("ndim", "dtype", "tolist"))


def is_key(value: object, keys: Collection[str]) -> TypeGuard[str]:
    """Return whether a value is the key of a sample in the shards."""
    return isinstance(value, str) and value in keys


def mark_of(value: object, keys: Collection[str] = ()) -> str:
    """Return the mark of a value.

    Args:
        value: any object of the user.
        keys: of the samples in the shards, which are their own marks.
    """
    if is_key(value, keys):
        return f"{KEY}{value}"
    if is_array(value):
        if value.ndim:
            return _array_mark(value)
        value = value.tolist()
    if isinstance(value, bool | int):
        return f"{NUMBER}{int(value)}"
    if isinstance(value, str):
        return text_mark(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_mark(bytes(value))
    if isinstance(value, Mapping):
        inner = {str(name): mark_of(field, keys) for name, field in value.items()}
        return OTHER + _digest(repr(inner).encode("utf-8", "replace"))
    if isinstance(value, list | tuple):
        return _sequence_mark(value, keys)
    return _object_mark(value)


def text_mark(text: str) -> str:
    """Return the mark of a text.

    The spaces around it do not count, because many pipelines remove them.
    """
    data = text.strip().encode("utf-8", "surrogatepass")
    kind = TEXT if len(data) >= _SHORT_BYTES else f"{SHORT}{TEXT}"
    return kind + _digest(data)


def bytes_mark(data: bytes) -> str:
    """Return the mark of bytes."""
    kind = BYTES if len(data) >= _SHORT_BYTES else f"{SHORT}{BYTES}"
    return kind + _digest(data)


def _sequence_mark(values: Sequence[object], keys: Collection[str]) -> str:
    if all(isinstance(value, int | float | list) for value in values):
        # Numbers alone, such as tokens: many, which are read at once.
        return _pickled_mark(values, ARRAY)
    marks = [mark_of(value, keys) for value in values]
    return OTHER + _digest(repr(marks).encode())


def _array_mark(value: Array) -> str:
    size = 1
    for length in value.shape:
        size *= int(length)
    is_picture = value.ndim >= _PICTURE_DIMENSIONS and size >= _PICTURE_VALUES
    is_sound = value.ndim == 1 and size >= _SOUND_VALUES and "float" in str(value.dtype)
    kind = PICTURE if is_picture or is_sound else ARRAY
    try:
        content = _array_bytes(value)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        # Such as a sparse tensor, or an array of objects.
        return _pickled_mark(value, kind)
    header = f"{value.dtype} {tuple(value.shape)} ".encode()
    if kind == PICTURE:
        return _picture_mark(header, content)
    return kind + _digest(header, content)


def _picture_mark(header: bytes, content: bytes | memoryview) -> str:
    data = bytes(content)
    first = data[:1]
    # The first bytes decide at once of most pictures.
    is_flat = data[:_SHORT_BYTES] == first * _SHORT_BYTES and data.count(first) == len(data)
    return (FLAT if is_flat else PICTURE) + _digest(header, data)


def _array_bytes(value: Array) -> bytes | memoryview:
    if not hasattr(value, "detach"):
        if getattr(value.dtype, "hasobject", True):
            raise TypeError("an array of objects has addresses, no contents")
        return value.tobytes()
    # A tensor has no tobytes, and numpy lacks some of its types, such as bfloat16: its bytes are
    # seen as numbers.
    torch = sys.modules["torch"]
    flat = value.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())


def _object_mark(value: object) -> str:
    read = getattr(value, "tobytes", None)
    if callable(read):
        # An image of Pillow: two of the same bytes may differ in their shape.
        kind = f"{getattr(value, 'mode', '')} {getattr(value, 'size', '')} ".encode()
        try:
            return _picture_mark(kind, cast("Callable[[], bytes]", read)())
        except Exception:  # noqa: BLE001 - such as an image that is cut off: the user's code meets it later, or never
            return OPAQUE + type(value).__name__
    return _pickled_mark(value, OTHER)


def _pickled_mark(value: object, kind: str) -> str:
    try:
        return kind + _digest(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - any object of the user
        return OPAQUE + type(value).__name__


def _digest(*parts: bytes | memoryview) -> str:
    # Twice as fast as blake2b: a batch of pictures has some 40 MB.
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:_DIGEST_LETTERS]
