"""Contents that are neither images nor captions: classes, arrays, archives, media."""

import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from gzip import GzipFile
from io import BytesIO
from math import prod
from struct import Struct, error, unpack
from typing import IO, Any
from zipfile import ZipFile

from wdsflow.scan.evidence import BAD, OK, OPAQUE, UNKNOWN, UNSAFE

from .full_decode import decode_image
from .packed import MOST_MSGPACK, cbor_is_sound, has_library, msgpack_is_sound
from .text_content import look_at_json, look_at_text

# The extensions that webdataset hands to Pillow; the list has stood unchanged from 0.2.86 to 1.x.
IMAGE_EXTENSIONS = frozenset(
    "apng blp bmp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib h5 hdf icb icns ico iim im "
    "j2c j2k jfif jp2 jpc jpe jpeg jpf jpg jpx mpeg mpg msp pbm pcd pcx pgm png pnm ppm ps psd pxr ras rgb rgba sgi "
    "tga tif tiff vda vst webp wmf xbm xpm".split()
)

# Kind of decoder -> extensions.
EXTENSIONS: dict[str, frozenset[str]] = {
    "image": IMAGE_EXTENSIONS,
    "text": frozenset(("txt", "text", "transcript")),
    "json": frozenset(("json", "jsn")),
    "integer": frozenset(("cls", "cls2", "index", "inx", "id")),
    "npy": frozenset(("npy",)),
    "npz": frozenset(("npz",)),
    "msgpack": frozenset(("mp", "msg")),
    "cbor": frozenset(("cbor",)),
    "tenbin": frozenset(("ten", "tb")),
    "pickle": frozenset(("pyd", "pickle", "pkl")),
    "torch": frozenset(("pth",)),
}
_KINDS = {extension: kind for kind, extensions in EXTENSIONS.items() for extension in extensions}

# webdataset's own expression: the dot stops at a newline, so "a.jpg\nb" is no jpg, and neither is ".jpg\n".
_BEFORE_EXTENSION = re.compile(r".*[.]")


@lru_cache(maxsize=4096)
def kind_of(suffix: str) -> str:
    """Return which of webdataset's decoders gets a field of this name.

    One of "image", "text", "json", "integer", "npy", "npz", "msgpack", "cbor", "tenbin", "pickle", "torch",
    "gz" (decompressed first, then decoded by what stands before the ``.gz``: ask again without it) or "opaque"
    (left as bytes). Upper and lower case are the same, as readers lower-case field names. Only the part after
    the last dot counts. The rule is that of ``webdataset.autodecode`` with ``decode("pilrgb")``; versions
    differ in one name: 0.2.86 leaves ``pkl`` as bytes, 1.x unpickles it, and here it is always "pickle".

    >>> kind_of("jpg"), kind_of("seg.PNG"), kind_of("json.gz"), kind_of("mp4")
    ('image', 'image', 'gz', 'opaque')
    """
    name = "." + suffix.lower()
    if name.endswith(".gz"):
        return "gz"
    return _KINDS.get(_BEFORE_EXTENSION.sub("", name), "opaque")


_HEADER = 1 << 14  # numpy takes no npy header beyond 10,000 bytes
_MOST_MEMBERS = 4096
_chunk = Struct("<8sq").unpack_from
_TENBIN = b"~TenBin~"
# As webdataset spells them, "unit32" for "uint32" included: both read as u4.
_TENBIN_TYPES = {b"f2": 2, b"f4": 4, b"f8": 8, b"i1": 1, b"i2": 2, b"i4": 4, b"i8": 8, b"u1": 1, b"u2": 2, b"u4": 4}
_TENBIN_TYPES[b"u8"] = 8
_TENSORS = "biufUmM"  # kinds of dtypes


def npy_is_sound(data: bytes) -> bool:
    """Return whether ``numpy.lib.format.read_array`` takes the bytes, with its default of no pickles."""
    stream = BytesIO(data)
    needed = _npy_bytes(stream)
    return needed is not None and needed <= len(data) - stream.tell()


def npy_rank(data: bytes) -> int:
    """Return the number of dimensions of a valid npy field; -1 for elements of a type that Arrow's tensors lack."""
    shape, dtype = _npy_header(BytesIO(data))
    return len(shape) if dtype.kind in _TENSORS and (dtype.kind != "f" or dtype.itemsize <= 8) else -1


def npz_is_sound(data: bytes) -> bool:
    """Return whether ``dict(numpy.load(...))`` takes the bytes: a zip of npy files.

    Members are not decompressed beyond their headers, so that a zip bomb stays small.
    """
    if not data.startswith(b"PK"):
        return False
    try:
        with ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                return False
            for member in members:
                with archive.open(member) as file:
                    start = BytesIO(file.read(_HEADER))
                if not start.getvalue().startswith(b"\x93NUMPY"):
                    continue  # numpy hands such a member out as bytes
                needed = _npy_bytes(start)
                if needed is None or needed > member.file_size - start.tell():
                    return False
    except Exception:  # noqa: BLE001 - zipfile raises many kinds on damaged archives
        return False
    return True


def _npy_bytes(stream: IO[bytes]) -> int | None:
    """Read an npy header and return how many bytes must follow it; None for what numpy refuses."""
    try:
        shape, dtype = _npy_header(stream)
    except Exception:  # noqa: BLE001 - the header is a Python literal: any parse error may come
        return None
    if dtype.hasobject or any(size < 0 for size in shape):
        return None
    return prod(shape) * dtype.itemsize


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], Any]:
    """Read an npy header: sizes and dtype. Raises whatever numpy's parser raises."""
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():  # arrays written by Python 2
        warnings.simplefilter("ignore")
        shape, _fortran, dtype = read(stream)
    return shape, dtype


def tenbin_is_sound(data: bytes) -> bool:
    """Return whether ``webdataset.tenbin.decode_buffer`` takes the bytes.

    Chunks of magic, length and contents padded to 64 bytes; in turn a header (type, name, rank, sizes, each eight
    bytes) and the array that it describes.
    """
    chunks: list[memoryview] = []
    position = 0
    try:
        while position < len(data):
            magic, length = _chunk(data, position)
            if magic != _TENBIN or length < 0:
                return False
            position += 16
            chunks.append(memoryview(data)[position : position + length])
            position += (length + 63) // 64 * 64
        return all(_tenbin_array_fits(head, array) for head, array in zip(chunks[::2], chunks[1::2], strict=False))
    except (error, ValueError):
        return False


def _tenbin_array_fits(head: memoryview, array: memoryview) -> bool:
    if len(head) % 8 or len(head) < 24:
        return False
    words = unpack(f"={len(head) // 8}q", head)
    size = _TENBIN_TYPES.get(bytes(head[:8]).strip(b"\0"))
    shape = words[3 : 3 + words[2]]
    if size is None or not shape or not bytes(head[8:16]).isascii():
        return False  # webdataset's decoder trips over arrays without a dimension
    return all(length >= 0 for length in shape) and prod(shape) * size <= len(array)


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
