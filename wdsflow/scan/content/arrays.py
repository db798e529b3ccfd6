"""Arrays in fields: npy and npz as numpy reads them, and webdataset's tenbin."""

import warnings
from io import BytesIO
from math import prod
from struct import Struct, error, unpack
from typing import TYPE_CHECKING
from zipfile import ZipFile

from wdsflow.scan.statuses import BAD, OK, PARTLY

if TYPE_CHECKING:
    from numpy import dtype, generic

# Bytes that hold the header of any array: numpy takes none beyond 10,000 bytes.
NPY_START = 1 << 14
_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# Bytes of all arrays of an npz that are unpacked, and of a piece.
_MOST_ARRAYS, _PIECE = 256 << 20, 1 << 20
# Kinds of dtypes of which Arrow's tensors are.
_TENSORS = "biufUmM"

# Magic and length of a chunk of tenbin.
_chunk = Struct("<8sq").unpack_from
# As webdataset spells them, "unit32" for "uint32" included: both read as u4.
_TENBIN_TYPES = {name.encode(): int(name[1]) for name in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()}


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
    """Return the number of dimensions of a valid npy field.

    -1 for an element type that Arrow's tensors do not support.
    """
    shape, dtype = _npy_header(BytesIO(data))
    is_long_float = dtype.kind == "f" and dtype.itemsize > 8
    if dtype.kind not in _TENSORS or is_long_float:
        return -1
    return len(shape)


def npy_is_valid(start: bytes, size: int) -> bool:
    """Return whether ``numpy.lib.format.read_array`` can read an npy field, without pickles.

    Only ``start``, the first bytes of the field, is parsed. ``size`` is the size of the field in
    bytes.
    """
    stream = BytesIO(start)
    try:
        shape, dtype = _npy_header(stream)
    except Exception:  # noqa: BLE001 - the header is a Python literal: any parse error may come
        return False
    # Objects are pickles.
    if dtype.hasobject or any(length < 0 for length in shape):
        return False
    return prod(shape) * dtype.itemsize <= size - stream.tell()


def npz_status(data: bytes) -> str:
    """Return the status of an npz file.

    OK for a zip of npy files. BAD if ``numpy.load`` refuses it. PARTLY if only an array in it does
    not load.

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


def tenbin_is_valid(data: bytes) -> bool:
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
