"""Contents that are neither images nor captions: class numbers, arrays, packed fields."""

from gzip import GzipFile
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO

from wdsflow.scan.statuses import BAD, NO_LIBRARY, NOT_ZIPPED, OK, OPAQUE, SUSPECT

from .arrays import NPY_START, npy_is_valid, npz_status, tenbin_is_valid
from .cbor import cbor_is_valid
from .field_kinds import kind_of
from .image_content import decode_image
from .pickled import pickle_status, torch_status
from .text_content import decode_json, decode_text

# Bytes.
_MOST_MSGPACK = 64 << 20
_MOST_UNZIPPED = 64 << 20
# Digits: Python's own limit.
_LONGEST_INTEGER = 4300

# A status, and the names of the tallies that a field adds to.
Outcome = tuple[str, tuple[str, ...]]
_REFUSED: Outcome = (BAD, ("field.bad",))
_HUGE: Outcome = (SUSPECT, ("field.huge",))
# Of the decoders.
_LIBRARIES = {
    "msgpack": "msgpack",
    "cbor": "cbor",
    "npy": "numpy",
    "npz": "numpy",
    "tenbin": "numpy",
}


def decode_other(kind: str, suffix: str, data: bytes) -> Outcome:
    """Return ``(status, notes)`` of a field that ``kind_of`` calls neither image nor text nor json.

    OK; BAD with "field.bad" where webdataset's decoder would raise; NO_LIBRARY with
    "field.needs-library" if that is because a library is missing here; PARTLY for an npz with an
    array that does not load. Pickles are never run: UNSAFE with "field.unsafe" is the best that is
    said of them. OPAQUE for fields that stay bytes. A gzipped field is unzipped, up to 64 MiB, and
    judged by its contents, NOT_ZIPPED if that fails. SUSPECT with "field.huge" beyond all limits.
    """
    if kind in ("pickle", "torch"):
        status = pickle_status(data) if kind == "pickle" else torch_status(data)
        if status == BAD:
            return status, ("field.unsafe", "field.bad")
        return status, ("field.unsafe",)
    if kind == "gz":
        return _decode_gz(suffix[:-3], data)
    if kind in _LIBRARIES and not has_library(_LIBRARIES[kind]):
        return NO_LIBRARY, ("field.needs-library",)
    if kind == "npz":
        status = npz_status(data)
        return status, () if status == OK else ("field.bad",)
    if kind == "msgpack" and len(data) > _MOST_MSGPACK:
        return _HUGE
    is_valid = _is_valid(kind, data)
    if is_valid is None:
        return OPAQUE, ()
    return (OK, ()) if is_valid else _REFUSED


def _is_valid(kind: str, data: bytes) -> bool | None:
    """Return whether webdataset's decoder for a kind accepts a field.

    None if the field stays bytes.
    """
    if kind == "integer":
        return _is_integer(data)
    if kind == "npy":
        return npy_is_valid(data[:NPY_START], len(data))
    if kind == "tenbin":
        return tenbin_is_valid(data)
    if kind == "msgpack":
        return _msgpack_is_valid(data)
    if kind == "cbor":
        return cbor_is_valid(data)
    return None


def _is_integer(data: bytes) -> bool:
    r"""Return whether ``int(data)`` works.

    ``int`` accepts white space, a sign, and underscores between digits.

    >>> _is_integer(b" 1_000\n"), _is_integer(b"7.0"), _is_integer(b"")
    (True, False, False)
    """
    if len(data) > _LONGEST_INTEGER and len(data.strip().replace(b"_", b"")) > _LONGEST_INTEGER + 1:
        return False
    try:
        int(data)
    except ValueError:
        return False
    return True


def _decode_gz(inner: str, data: bytes) -> Outcome:
    try:
        with GzipFile(fileobj=BytesIO(data)) as file:
            contents = file.read(_MOST_UNZIPPED + 1)
    except Exception:  # noqa: BLE001 - OSError, EOFError, zlib.error and more
        return NOT_ZIPPED, ("field.bad",)
    if len(contents) > _MOST_UNZIPPED:
        return _HUGE
    kind = kind_of(inner)
    if kind == "image":
        return decode_image(contents, 0)
    if kind == "text":
        return decode_text(contents)[:2]
    if kind == "json":
        return decode_json(contents, ())[:2]
    if kind == "gz":
        # webdataset unzips once.
        return OPAQUE, ()
    return decode_other(kind, inner, contents)


def has_library(name: str) -> bool:
    """Return whether a top-level module can be imported here, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _msgpack_is_valid(data: bytes) -> bool:
    """Return whether ``msgpack.unpackb(data)`` accepts the bytes.

    The library itself limits lengths and depth.
    """
    try:
        import_module("msgpack").unpackb(data)
    except Exception:  # noqa: BLE001 - it raises ValueError, TypeError, UnpackException and more
        return False
    return True
