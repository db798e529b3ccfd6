"""What a decoder would make of the fields next to image, caption and json. Nothing is unpickled or executed."""

from collections.abc import Callable
from gzip import GzipFile
from io import BytesIO

from wdsflow.scan.evidence import BAD, OK, OPAQUE, UNKNOWN, UNSAFE

from .arrays import npy_is_sound, npz_is_sound, tenbin_is_sound
from .field_kinds import kind_of
from .full_decode import decode_image
from .json_fields import look_at_json
from .packed import MOST_MSGPACK, cbor_is_sound, has_library, msgpack_is_sound
from .text_content import look_at_text

MOST_UNZIPPED = 64 << 20
_LONGEST_INTEGER = 4300  # digits: Python's own limit

Outcome = tuple[str, tuple[str, ...]]
_REFUSED: Outcome = (BAD, ("field.bad",))


def decode_other(kind: str, suffix: str, data: bytes) -> Outcome:
    """Return ``(status, notes)`` of a field that ``kind_of`` calls neither image nor text nor json.

    ``suffix`` is the field name. OK, or BAD with "field.bad" where webdataset's decoder would raise, with
    "field.needs-library" where the reason is a library that is missing here; UNSAFE with "field.unsafe" for
    pickles, at which nobody looks; OPAQUE for what stays bytes. A gzipped field is unzipped, up to 64 MiB, and
    judged by what it holds; UNKNOWN beyond that.
    """
    if kind == "integer":
        return _outcome(_is_integer(data))
    if kind in ("pickle", "torch"):
        return UNSAFE, ("field.unsafe",)
    if kind == "gz":
        return _gz(suffix, data)
    if kind in _LIBRARIES:
        if not has_library(_LIBRARIES[kind]):
            return BAD, ("field.bad", "field.needs-library")
        if kind == "msgpack" and len(data) > MOST_MSGPACK:
            return UNKNOWN, ()
    sound = _CHECKS.get(kind)
    return _outcome(sound(data)) if sound else (OPAQUE, ())


def _is_integer(data: bytes) -> bool:
    r"""Return whether ``int(data)`` works: it takes white space, a sign, and underscores between digits.

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


def _gz(suffix: str, data: bytes) -> Outcome:
    inner = suffix[:-3]
    try:
        with GzipFile(fileobj=BytesIO(data)) as file:
            contents = file.read(MOST_UNZIPPED + 1)
    except Exception:  # noqa: BLE001 - OSError, EOFError, zlib.error and more
        return _REFUSED
    if len(contents) > MOST_UNZIPPED:
        return UNKNOWN, ("field.bad",)
    kind = kind_of(inner)
    if kind == "image":
        return decode_image(contents, 0)
    if kind == "text":
        return look_at_text(contents)[:2]
    if kind == "json":
        return look_at_json(contents, ())[:2]
    if kind == "gz":  # webdataset unzips once
        return OPAQUE, ()
    return decode_other(kind, inner, contents)


def _outcome(sound: bool) -> Outcome:
    return (OK, ()) if sound else _REFUSED


_LIBRARIES = {"msgpack": "msgpack", "cbor": "cbor", "npy": "numpy", "npz": "numpy"}
_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "npy": npy_is_sound,
    "npz": npz_is_sound,
    "tenbin": tenbin_is_sound,
    "msgpack": msgpack_is_sound,
    "cbor": cbor_is_sound,
}
