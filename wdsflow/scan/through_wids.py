"""Shards as wids reads them: by its own tar parser, with its own rule for samples, and its own decoders."""

from collections.abc import Callable, Iterable
from gzip import GzipFile
from io import BytesIO
from zipfile import ZipFile

from wdsflow.scan.content.full_decode import opens
from wdsflow.scan.content.other import MOST_UNZIPPED
from wdsflow.shards.field_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.wids_tar import NotForWids, WidsMember, fields, groups, members

from .content_scan import MOST_FIELD, Looker
from .evidence import BAD, BOMB, NOT_UTF8, OK, UNKNOWN, Level, Part, Shape, ShardEvidence
from .runs import LONGEST_RUN, RunCollector
from .scan_options import ScanOptions

MIXED = "mixed"  # of a sample with members of several keys
NOT_PARSED = "not-parsed"  # error of a shard for which wids raises when it opens it
OPENED = frozenset({"jpg", "png", "ppm", "pgm", "pbm", "pnm"})  # Image.open decodes no pixels
_TROUBLE = frozenset({BAD, BOMB, NOT_UTF8})
_INTEGERS = ("cls", "cls2")
_PLAIN = frozenset({"txt", "json"})  # fields that it decodes as webdataset does
# What makes no difference for wids, though other readers mind.
_ALIKE = frozenset(
    ("name.appledouble", "name.macosx", "name.dotted", "name.upper", "name.mixed-prefix", "tar.pax-overhead")
)


def by_wids(
    shard: ShardEvidence, level: Level, collector: Callable[[], RunCollector], *, plain: bool, allow_pipe: bool
) -> ShardEvidence | None:
    """Return the evidence of a shard as wids reads it; None if it meets the same samples as others, or none.

    Args:
        shard: what a scan found.
        level: how deep to look.
        collector: makes what takes the runs.
        plain: extended headers tell nothing but times, and no header tells wids something else.
        allow_pipe: run ``pipe:`` urls in a shell.
    """
    if not shard.is_whole:
        return None  # it is not in the index
    plain = plain and shard.compression is None and counts_alike(shard)
    if plain and all(map(_decodes_alike, shard.runs.shapes())):
        return None
    found = ShardEvidence(shard.url, size=shard.size)
    if not (shard.runs.head or shard.all_runs or shard.tally("name.hidden").count):
        return found  # the index has no sample of it, so that it is never opened
    try:
        if shard.compression is not None:
            raise NotForWids(0, f"it is compressed ({shard.compression})")
        with open_source(shard.url, allow_pipe=allow_pipe) as source:
            there = members(source.read_at, source.reaches)
        with open_source(shard.url, allow_pipe=allow_pipe) as source:  # again: some can only be read onwards
            _scan(source, found, there, level, collector())
    except (NotForWids, SourceError) as error:
        found.fail(NOT_PARSED, error.detail, offset=getattr(error, "offset", 0))
    return found


def count_samples(url: str) -> int | None:
    """Return how many samples wids finds in a shard that is not compressed, None if it raises. Raises ``OSError``."""
    with open_source(url) as source:
        try:
            return len(groups(members(source.read_at, source.reaches)))
        except NotForWids:
            return None


def counts_alike(shard: ShardEvidence) -> bool:
    """Return whether wids and tarfile find the same samples in a whole shard without extended headers."""
    return not _unlike(shard, ("tar.", "name.", "key."))


def foreseen(shard: ShardEvidence) -> bool:
    """Return whether wids finds the samples of a shard which is not written yet, so that no scan saw it."""
    return not shard.by_parser.get("wids") and _unlike(shard, ("name.", "key.")) <= {"name.not-ascii"}


def _unlike(shard: ShardEvidence, kinds: tuple[str, ...]) -> set[str]:
    found = (name for name, tally in shard.tallies.items() if tally.count and name not in _ALIKE)
    return {name for name in found if name.startswith(kinds)}


def _decodes_alike(shape: Shape) -> bool:
    """Return whether wids raises for the same fields as webdataset."""
    image = _image_of(part.suffix for part in shape)
    return all(part.status not in _TROUBLE or part.suffix in _PLAIN or part.suffix == image for part in shape)


def _image_of(suffixes: Iterable[str]) -> str | None:
    present = set(suffixes)
    return next((name for name in IMAGE_FIELDS if name in present), None)


def _scan(source: Source, found: ShardEvidence, there: list[WidsMember], level: Level, runs: RunCollector) -> None:
    found.members = len(there)
    looker = None if level == "names" else Looker(found, ScanOptions(level))
    for group in groups(there):
        key, sample = fields(there, group)
        runs.begin(key, there[group[0]].data)
        if sample is None:
            runs.parts.append(Part("", MIXED))
            continue
        image = _image_of(sample)
        for suffix, member in list(sample.items())[:LONGEST_RUN]:
            status = UNKNOWN if looker is None else _status(source, looker, key, suffix, member, suffix == image)
            runs.parts.append(Part(suffix, status))
    found.runs = runs.runs()
    found.bytes_read = source.bytes_read


def _status(source: Source, looker: Looker, key: str, suffix: str, member: WidsMember, taken: bool) -> str:
    """Return what wids makes of one field: as webdataset does, or else as its own decoder judges."""
    size = max(0, member.size)

    def read(start: int, count: int) -> bytes:
        return source.read_at(member.data + start, max(0, min(count, size - start)))

    status = looker.look(key, suffix, member.data, size, read)
    looked_at = looker.full or suffix.endswith(_INTEGERS)  # of others, only the first bytes
    if status not in _TROUBLE or taken or suffix in _PLAIN or not looked_at or size > MOST_FIELD:
        return status
    return _decoded(suffix, read(0, size), status)


def _decoded(suffix: str, data: bytes, status: str) -> str:
    """Return the status of a field that webdataset refuses."""
    *_, inner, extension = "", *suffix.split(".")
    if extension == "gz":
        try:
            with GzipFile(fileobj=BytesIO(data)) as file:
                data, extension = file.read(MOST_UNZIPPED + 1), inner
        except Exception:  # noqa: BLE001 - OSError, EOFError, zlib.error and more
            return BAD
        if len(data) > MOST_UNZIPPED:
            return UNKNOWN
    if extension in OPENED:
        return OK if opens(data) else BAD
    if extension in _INTEGERS:
        return OK if _is_integer(data) else BAD
    if extension == "npy":
        return OK if _is_zip(data) else BAD  # numpy.load takes an npz as well
    return status if extension in ("txt", "text", "json", "mp") else OK


def _is_zip(data: bytes) -> bool:
    try:
        ZipFile(BytesIO(data)).close()
    except Exception:  # noqa: BLE001 - BadZipFile, and what damaged directories lead to
        return False
    return data.startswith((b"PK\3\4", b"PK\5\6"))


def _is_integer(data: bytes) -> bool:
    """Return whether the text of a number is one: in text, digits of other scripts count as well."""
    try:
        int(data.decode())
    except ValueError:
        return False
    return True
