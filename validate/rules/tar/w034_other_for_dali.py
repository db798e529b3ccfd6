from collections.abc import Iterable, Iterator

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShapeCount, ShardEvidence
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many, listed

from ...finding import Finding, Repair
from ..kit.base import Context, Rule
from ..kit.shape_rule import sound


class OtherForDali(Rule):
    """NVIDIA DALI finds other samples in the shard than readers in Python.

    What: DALI has a tar parser and image decoders of its own. A file without an extension is a sample, and so is a shard
    without files; a dot-file in front of all others puts an empty sample there. Names and sizes in PAX headers are not
    read. GIF, and formats that only Pillow knows, are not decoded.

    Why it matters: a sample without an image comes as an empty tensor, for which DALI's image decoder raises: the whole
    run ends, "Unsupported image type" or "The decoder failed". With ``missing_component_behavior="error"`` it ends before
    the first sample.

    In practice: a ``README`` or ``LICENSE`` next to the samples; ``.DS_Store`` as the first member; names of more than 100
    characters written by Python's tarfile, whose default is PAX; a GIF under a .jpg name, as web servers send it.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves out what is no sample and writes names that DALI reads; so does an
    index, for which nothing is written again: ``wdsflow index SHARD --dali``, and ``index_paths`` in the pipeline. It
    keeps images as they are: for these, download again without img2dataset's ``--disable_all_reencoding``.
    """

    code = "W034"
    severity = "error"
    repair_note = "leaves out what is no sample, and writes names that DALI reads"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each shard with samples that end DALI, and that no other reader has."""
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "dali" else ():
                own = reader.as_read(shard)
                if own is not shard and shard.error is None and shard.stop.kind in ("end", "eof"):
                    yield from self._judge(reader, shard, own)

    def _judge(self, reader: Reader, shard: ShardEvidence, own: ShardEvidence) -> Iterator[Finding]:
        title = reader.title.split(" (")[0]
        fix = self.repair(shard.url) if shard.samples else None  # else there is nothing to write
        if own.error is not None:
            yield self._finding(reader, shard, f"{title} cannot read the tar: {escape(own.error_detail)}", None, fix)
            return
        lacking = list(_lacking(reader, own))
        if (more := _total(lacking) - _total(_lacking(reader, shard))) > 0:
            what = f"{title} finds {how_many(more, 'more sample')} without an image: {_cause(own, shard)}"
            yield self._finding(reader, shard, what, min(lacking, key=lambda item: len(item.shape)), fix)
        if (more := _total(_refused(reader, own)) - _total(_refused(reader, shard))) > 0:
            what = f"{title} does not decode {how_many(more, 'image')} that Pillow decodes"
            yield self._finding(reader, shard, what, next(_refused(reader, own)), None)

    def _finding(
        self, reader: Reader, shard: ShardEvidence, message: str, place: ShapeCount | None, fix: Repair | None
    ) -> Finding:
        return Finding(
            code=self.code,
            severity=self.severity,
            message=message,
            shard=shard.url,
            key=place.key or None if place else None,
            offset=place.offset if place else None,
            count=1,
            readers=(reader.name,),
            repair=fix,
        )


def _total(items: Iterable[ShapeCount]) -> int:
    return sum(item.count for item in items)


def _lacking(reader: Reader, shard: ShardEvidence) -> Iterator[ShapeCount]:
    """Yield the samples that lack an image."""
    for item in shard.runs.counted():
        if any(fate.kind == "crash" for fate in reader.fates(sound(item.shape))):
            yield item


def _refused(reader: Reader, shard: ShardEvidence) -> Iterator[ShapeCount]:
    """Yield the samples whose image does not decode."""
    for item in shard.runs.counted():
        if any(fate.reason == "bad-image" for fate in reader.fates(item.shape)):
            yield item


def _cause(own: ShardEvidence, shard: ShardEvidence) -> str:
    """Return what is in the shard that DALI takes for something else."""
    if not own.members:
        return "the shard has no files"
    causes = {
        "a file without an extension is one": ("name.no-field", "name.meta"),
        "a dot-file in front gives an empty one": ("name.hidden",),
        "sparse members are skipped": ("tar.sparse",),
    }
    found = [text for text, names in causes.items() if any(shard.tally(name).count for name in names)]
    return listed(found) if found else "names and sizes in PAX headers are not read"
