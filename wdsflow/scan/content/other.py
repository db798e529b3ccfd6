"""Contents that are neither images nor captions: class numbers, arrays, packed fields, audio and video."""

import re
import warnings
from functools import lru_cache
from gzip import GzipFile
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from math import prod
from struct import Struct, error, unpack
from typing import TYPE_CHECKING
from zipfile import ZipFile

from wdsflow.media import (
    HEAD,
    Read,
    format_title,
    is_cut,
    least_size,
    media_format,
    promised_format,
    tag_length,
)
from wdsflow.scan.statuses import BAD, NO_LIBRARY, NOT_ZIPPED, OK, OPAQUE, PARTLY, SUSPECT

from .image_content import decode_image
from .pickled import pickle_status, torch_status
from .text_content import look_at_json, look_at_text

if TYPE_CHECKING:
    from numpy import dtype, generic

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

# webdataset's own expression: the dot stops at a newline,
# so "a.jpg\nb" is not a jpg, and neither is ".jpg\n".
_BEFORE_EXTENSION = re.compile(r".*[.]")

_NPY_MAGIC, _ZIP_MAGIC = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")
# Bytes.
_MOST_ARRAYS, _PIECE = 256 << 20, 1 << 20
_chunk = Struct("<8sq").unpack_from
# As webdataset spells them, "unit32" for "uint32" included: both read as u4.
_TENBIN_TYPES = {name.encode(): int(name[1]) for name in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()}
# Kinds of dtypes.
_TENSORS = "biufUmM"

# Bytes that hold the header of any array: numpy takes none beyond 10,000 bytes.
NPY_START = 1 << 14

# CBOR (RFC 8949): deepest nesting, lengths by additional information, major types.
_DEEPEST = 512
_LENGTHS = {24: Struct(">B"), 25: Struct(">H"), 26: Struct(">I"), 27: Struct(">Q")}
_BYTES, _TEXT, _ARRAY, _MAP, _TAG = 2, 3, 4, 5, 6
_INDEFINITE, _BREAK = 31, 0xFF

_MOST_MSGPACK = _MOST_UNZIPPED = 64 << 20
# Digits: Python's own limit.
_LONGEST_INTEGER = 4300

Outcome = tuple[str, tuple[str, ...]]
_REFUSED: Outcome = (BAD, ("field.bad",))
_HUGE: Outcome = (SUSPECT, ("field.huge",))
_LIBRARIES = {
    "msgpack": "msgpack",
    "cbor": "cbor",
    "npy": "numpy",
    "npz": "numpy",
    "tenbin": "numpy",
}

# Pictures in the container of MP4.
_ANIMATED = frozenset((b"heic", b"heix", b"mif1", b"avif", b"avis"))
# Bytes: writers of WAV forget the padding, or count the 8 bytes of the chunk's own header.
_SLOPPY = 12


@lru_cache(maxsize=4096)
def kind_of(suffix: str) -> str:
    """Return which of webdataset's decoders gets a field of this name.

    One of ``EXTENSIONS``, "gz" (decompressed first, then decoded by the name before ``.gz``: call
    again without it) or "opaque" (left as bytes). Case does not matter, and only the part after the
    last dot counts, as in ``webdataset.autodecode`` with ``decode("pilrgb")``. Versions differ in
    one name: 0.2.86 leaves ``pkl`` as bytes, 1.x unpickles it; here it is always "pickle".

    >>> kind_of("jpg"), kind_of("seg.PNG"), kind_of("json.gz"), kind_of("mp4")
    ('image', 'image', 'gz', 'opaque')
    """
    name = "." + suffix.lower()
    return "gz" if name.endswith(".gz") else _KINDS.get(_BEFORE_EXTENSION.sub("", name), "opaque")


def _npy_header(stream: BytesIO) -> "tuple[tuple[int, ...], dtype[generic]]":
    """Read an npy header: sizes and dtype. Raises errors of numpy's parser."""
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    # Arrays written by Python 2.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, _fortran, dtype = read(stream)
    return shape, dtype


def npy_rank(data: bytes) -> int:
    """Return the number of dimensions of a valid npy field; -1 for elements of a type that Arrow's tensors lack."""
    shape, dtype = _npy_header(BytesIO(data))
    return (
        len(shape) if dtype.kind in _TENSORS and (dtype.kind != "f" or dtype.itemsize <= 8) else -1
    )


def npy_is_valid(start: bytes, size: int) -> bool:
    """Return whether ``numpy.lib.format.read_array`` takes an array of ``size`` bytes, without pickles, by its start."""
    stream = BytesIO(start)
    try:
        shape, dtype = _npy_header(stream)
    except Exception:  # noqa: BLE001 - the header is a Python literal: any parse error may come
        return False
    whole = not dtype.hasobject and all(length >= 0 for length in shape)
    return whole and prod(shape) * dtype.itemsize <= size - stream.tell()


def _npz_status(data: bytes) -> str:
    """Return OK for a zip of npy files, BAD if ``numpy.load`` refuses it, PARTLY if only an array in it does not load.

    Arrays are unpacked in small pieces and not kept; of those beyond 256 MiB only the headers are
    compared.
    """
    # Which numpy.load takes for an npy, whatever its name.
    if data.startswith(_NPY_MAGIC):
        return OK if npy_is_valid(data[:NPY_START], len(data)) else BAD
    if not data.startswith(_ZIP_MAGIC):
        return BAD
    try:
        archive = ZipFile(BytesIO(data))
    except Exception:  # noqa: BLE001 - zipfile raises many kinds on damaged archives
        return BAD
    with archive:
        try:
            return _arrays_status(archive)
        except Exception:  # noqa: BLE001
            return PARTLY


def _arrays_status(archive: ZipFile) -> str:
    """Return OK or PARTLY for the members of an npz. Raises errors of zipfile."""
    members = archive.infolist()
    unpacks = sum(member.file_size for member in members) <= _MOST_ARRAYS
    for member in members:
        with archive.open(member) as file:
            start = file.read(NPY_START)
            # numpy hands out any other member as bytes
            if start.startswith(_NPY_MAGIC) and not npy_is_valid(start, member.file_size):
                return PARTLY
            # To the end, where the checksum is compared.
            while unpacks and file.read(_PIECE):
                pass
    return OK


def _tenbin_is_valid(data: bytes) -> bool:
    """Return whether ``webdataset.tenbin.decode_buffer`` takes the bytes.

    Chunks of magic, length and contents padded to 64 bytes; in turn a header (type, name, rank,
    sizes, each eight bytes) and the array that it describes.
    """
    chunks: list[memoryview] = []
    position = 0
    try:
        while position < len(data):
            magic, length = _chunk(data, position)
            if magic != b"~TenBin~" or length < 0:
                return False
            position += 16
            chunks.append(memoryview(data)[position : position + length])
            position += (length + 63) // 64 * 64
        return all(
            _tenbin_array_fits(head, array)
            for head, array in zip(chunks[::2], chunks[1::2], strict=False)
        )
    except (error, ValueError):
        return False


def _tenbin_array_fits(head: memoryview, array: memoryview) -> bool:
    if len(head) % 8 or len(head) < 24:
        return False
    words = unpack(f"={len(head) // 8}q", head)
    size = _TENBIN_TYPES.get(bytes(head[:8]).strip(b"\0"))
    shape = words[3 : 3 + words[2]]
    if size is None or not shape or not bytes(head[8:16]).isascii():
        # webdataset's decoder trips over arrays without a dimension.
        return False
    return all(length >= 0 for length in shape) and prod(shape) * size <= len(array)


def has_library(name: str) -> bool:
    """Return whether a top-level module can be imported here, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _msgpack_is_valid(data: bytes) -> bool:
    """Return whether ``msgpack.unpackb(data)`` takes the bytes; the library itself limits lengths and depth."""
    try:
        import_module("msgpack").unpackb(data)
    except Exception:  # noqa: BLE001 - it raises ValueError, TypeError, UnpackException and more
        return False
    return True


def cbor_is_valid(data: bytes) -> bool:
    """Return whether the bytes start with one well-formed CBOR item (RFC 8949).

    Walked here, not by the library: that one recurses in C without a limit, and deep nesting ends
    the process.
    """
    # Items still to come in each open array, map or tag; -1 without a known number.
    open_items: list[int] = [1]
    position = 0
    try:
        while open_items:
            if open_items[-1] == 0:
                open_items.pop()
                continue
            if len(open_items) > _DEEPEST:
                return False
            first = data[position]
            position += 1
            if first == _BREAK:
                if open_items.pop() != -1:
                    return False
                continue
            if open_items[-1] > 0:
                open_items[-1] -= 1
            position, children = _cbor_item(data, position, first >> 5, first & 31)
            if children:
                open_items.append(children)
    except (error, IndexError, ValueError):
        return False
    return True


def _cbor_item(data: bytes, position: int, major: int, info: int) -> tuple[int, int]:
    """Return where the item's head and string end, and how many items belong to it (-1: until a break)."""
    if info == _INDEFINITE and major in (_BYTES, _TEXT, _ARRAY, _MAP):
        return position, -1
    if info > 27:
        raise ValueError
    value = info
    if info in _LENGTHS:
        (value,) = _LENGTHS[info].unpack_from(data, position)
        position += _LENGTHS[info].size
    if major in (_BYTES, _TEXT):
        end = position + value
        if end > len(data):
            raise ValueError
        if major == _TEXT:
            str(data[position:end], "utf-8")
        return end, 0
    if major in (_ARRAY, _MAP):
        if value > len(data):
            raise ValueError
        return position, value * (2 if major == _MAP else 1)
    return position, 1 if major == _TAG else 0


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
        return status, ("field.unsafe",) if status != BAD else ("field.unsafe", "field.bad")
    if kind == "gz":
        return _decode_gz(suffix[:-3], data)
    if kind in _LIBRARIES and not has_library(_LIBRARIES[kind]):
        return NO_LIBRARY, ("field.needs-library",)
    if kind == "npz":
        status = _npz_status(data)
        return status, () if status == OK else ("field.bad",)
    if kind == "msgpack" and len(data) > _MOST_MSGPACK:
        return _HUGE
    checks = {
        "integer": _is_integer,
        "npy": lambda data: npy_is_valid(data[:NPY_START], len(data)),
        "tenbin": _tenbin_is_valid,
        "msgpack": _msgpack_is_valid,
        "cbor": cbor_is_valid,
    }
    if kind not in checks:
        return OPAQUE, ()
    return (OK, ()) if checks[kind](data) else _REFUSED


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
        return look_at_text(contents)[:2]
    if kind == "json":
        return look_at_json(contents, ())[:2]
    # webdataset unzips once
    return (OPAQUE, ()) if kind == "gz" else decode_other(kind, inner, contents)


def media_notes(suffix: str, size: int, read: Read) -> tuple[tuple[str, ...], str]:
    """Return the names of the tallies that an audio or video member adds to, and the format that was found instead.

    ``suffix`` is the field name in lower case; ``read`` returns bytes by offset and number, none if
    it cannot.
    """
    if not size:
        return ("media.empty",), ""
    head = read(0, min(size, HEAD))
    if not head:
        return (), ""
    tagged = tag_length(head)
    if tagged >= size:
        return ("media.cut",), ""
    if tagged:
        head = read(tagged, min(size - tagged, HEAD))
        if not head:
            return (), ""
    found = media_format(head)
    if not found or (found == "mp4" and head[4:8] == b"ftyp" and head[8:12] in _ANIMATED):
        # A frame of MP3 may begin anywhere: a decoder searches for it.
        return ((), "") if tagged else (("media.not-media",), "")
    notes: tuple[str, ...] = ("media.wrong-format",) if found != promised_format(suffix) else ()
    slack = _SLOPPY if found == "wav" else 0
    if least_size(head) > size - tagged + slack or (
        found == "mp4" and not tagged and is_cut(size, read)
    ):
        notes += ("media.cut",)
    return notes, format_title(found)
