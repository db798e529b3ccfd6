"""Shards as NVIDIA DALI reads them: by its own tar parser, with its own rule for samples, and its own image decoders."""

from collections.abc import Callable
from zlib import crc32

from wdsflow.images.image_header import read_header
from wdsflow.scan.content.full_decode import decode_image
from wdsflow.scan.content.image_content import header_status
from wdsflow.shards.field_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.libtar import CorruptTar, LibtarFile, regular_files
from wdsflow.shards.tar.tar_header import BLOCK

from .evidence import BAD, BOMB, OK, OPAQUE, UNKNOWN, Level, Part, ShardEvidence, Tally
from .runs import LONGEST_RUN, RunCollector

CAPTION = "txt"
UNDECIDED = "image.undecided"
PAST_END = "past-end"  # of a caption without bytes at the end of the file
_ALWAYS = frozenset(("jpeg", "webp"))  # formats of which it takes what Pillow takes, where they are whole
_MOSTLY = frozenset(("png", "bmp", "tiff", "ppm", "jp2"))  # formats that it decodes
_FIRST = 4096  # bytes of an image that its header is looked for in
_LARGEST = 256 << 20  # bytes of an image that is decoded
# What makes no difference for DALI, though other readers mind.
_ALIKE = (
    "name.not-utf8",
    "name.not-ascii",
    "name.appledouble",
    "name.macosx",
    "name.dotted",
    "name.upper",
    "name.mixed-prefix",
    "tar.pax-overhead",
)
_DOUBTFUL = ("image.bomb", "image.undecodable", "image.damaged")


def by_dali(
    shard: ShardEvidence, level: Level, collector: Callable[[], RunCollector], *, plain: bool, allow_pipe: bool
) -> ShardEvidence | None:
    """Return the evidence of a shard as DALI reads it; None if it meets the same samples as the readers in Python.

    Args:
        shard: what a scan found.
        level: how deep to look.
        collector: makes what takes the runs.
        plain: extended headers tell nothing but times, and no header tells libtar something else.
        allow_pipe: run ``pipe:`` urls in a shell.
    """
    if shard.compression is not None or shard.error not in (None, "not-a-tar"):
        return None  # it cannot be read at all
    if plain and _reads_alike(shard) and decodes_alike(shard):
        return None
    found = ShardEvidence(shard.url, size=shard.size)
    try:
        with open_source(shard.url, allow_pipe=allow_pipe) as source:
            _scan(source, found, level, collector())
    except CorruptTar as error:
        found.fail("not-a-tar", error.detail, offset=error.offset)
    except SourceError as error:
        found.fail(error.kind, error.detail, fix=error.fix)
    found.unreached = max(0, min(shard.unreached, shard.samples - found.runs.count))
    return found


def _reads_alike(shard: ShardEvidence) -> bool:
    """Return whether tarfile and libtar find the same files in a shard without extended headers."""
    if shard.stop.kind != "end" or shard.error is not None or not shard.members:
        return False
    rest = -1 if shard.size is None else shard.size - shard.stop.offset
    if rest < 2 * BLOCK and rest != BLOCK:
        return False
    tallies = (name for name, tally in shard.tallies.items() if tally.count)
    return not any(name.startswith(("tar.", "name.")) and name not in _ALIKE for name in tallies)


def decodes_alike(shard: ShardEvidence) -> bool:
    """Return whether DALI decodes the same images as Pillow."""
    return shard.images.formats.keys() <= _ALWAYS | {"png"} and not any(shard.tally(name).count for name in _DOUBTFUL)


def _scan(source: Source, found: ShardEvidence, level: Level, runs: RunCollector) -> None:
    """Group files into samples: neighbours with the same path up to the first dot of the last component.

    DALI begins with the key of the first file, and skips files without a key: after such a first file, the first sample
    is empty. A file without a dot has a sample of its own, and an archive without files has an empty one.
    """
    for file in regular_files(source.read_at, source.reaches):
        key, suffix = _split(file.name)
        if key != runs.key and (key or runs.key is None):
            runs.begin(key, file.data)
        if not key:
            continue
        found.members += 1
        if suffix is not None and len(runs.parts) < LONGEST_RUN:
            runs.parts.append(Part(suffix, _status(source, found, file, suffix, level, runs)))
    if runs.key is None:
        runs.begin("", 0)
    found.runs = runs.runs()
    found.bytes_read = source.bytes_read


def _split(name: str) -> tuple[str, str | None]:
    """Cut a name at the first dot of its last component; one without a dot is a key without a field.

    >>> _split("v1.0/001.seg.png"), _split("v1.0/README"), _split(".DS_Store")
    (('v1.0/001', 'seg.png'), ('v1.0/README', None), ('', 'DS_Store'))
    """
    dot = name.find(".", name.rfind("/") + 1)
    return (name, None) if dot < 0 else (name[:dot], name[dot + 1 :])


def _status(
    source: Source, found: ShardEvidence, file: LibtarFile, suffix: str, level: Level, runs: RunCollector
) -> str:
    """Return what becomes of one file that is taken for image or caption, OPAQUE if another is or nobody asks."""
    wanted = IMAGE_FIELDS if suffix in IMAGE_FIELDS else (CAPTION,)
    if suffix not in wanted or any(part.suffix in wanted for part in runs.parts):
        return OPAQUE
    if file.size < 0 or (not file.size and not source.reaches(file.data + 1)):
        return PAST_END
    if suffix == CAPTION:
        return OK
    return UNKNOWN if level == "names" else _image(source, found, file, suffix, level)


def _image(source: Source, found: ShardEvidence, file: LibtarFile, suffix: str, level: Level) -> str:
    full = level == "full" and file.size <= _LARGEST
    data = source.read_at(file.data, file.size if full else min(file.size, _FIRST))
    header = read_header(data)
    while header is not None and header.needs > len(data) < file.size:
        more = source.read_at(file.data, min(file.size, header.needs))
        if len(more) <= len(data):  # the file became shorter
            break
        data = more
        header = read_header(data)
    if header is None or header.format not in _ALWAYS | _MOSTLY:
        return BAD
    status, notes = decode_image(data, 0) if full else (header_status(header, file.size, 0), ())
    # Of damaged JPEGs, each of the two decoders takes some that the other refuses.
    known = header.format in _ALWAYS and status == OK and "image.damaged" not in notes
    if header.format == "png" and full:
        sound = _is_sound_png(data)
        known = sound is not None and (status == OK or not sound)
        status = OK if sound and status == OK else BAD
    elif header.format == "bmp":
        known = status == OK
    if not known and level == "full":
        damaged = "damaged " * (header.format in _ALWAYS and status != BOMB)
        what = f"{suffix}: {damaged}{header.format}"
        found.tallies.setdefault(UNDECIDED, Tally()).add(_split(file.name)[0], file.data, what)
    return status


def _is_sound_png(data: bytes) -> bool | None:
    """Return False if libpng refuses the image data, None if that depends on a chunk that it can do without."""
    doubt = False
    position = 8
    while position + 12 <= len(data):
        length, name = int.from_bytes(data[position : position + 4], "big"), data[position + 4 : position + 8]
        end = position + 12 + length
        whole = end <= len(data) and crc32(data[position + 4 : end - 4]) == int.from_bytes(data[end - 4 : end], "big")
        needed = name[0] & 0x20 == 0 and name != b"IEND"
        if not whole and needed:
            return False
        doubt = doubt or not whole
        if name == b"IEND":
            return None if doubt else True
        position = end
    return None if doubt else False
