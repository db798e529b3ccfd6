from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.readers.dali import refused_images
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, Rule


class OtherForDali(Rule):
    """NVIDIA DALI finds other samples in the shard than readers in Python.

    What: DALI has a tar parser and image decoders of its own. A file without an extension is a sample, and so is a shard
    without files. GIF, and formats that only Pillow knows, are not decoded.

    Why it matters: a sample without an image comes as an empty tensor, for which DALI's image decoder raises: the whole
    run ends, "Unsupported image type" or "The decoder failed". With ``missing_component_behavior="error"`` it ends before
    the first sample.

    In practice: a ``README`` or ``LICENSE`` next to the samples; a GIF under a .jpg name, as web servers send it.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves out files that are not samples; so does an index, for which
    nothing is written again: ``wdsflow index SHARD --dali``, and ``index_paths`` in the pipeline. It keeps images as they
    are: for these, download again without img2dataset's ``--disable_all_reencoding``.
    """

    code = "W034"
    severity = "error"
    repair_note = "leaves out files that are not samples"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield the findings on each shard with samples that end DALI, and that no other reader has."""
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "dali" else ():
                if shard.error is None and shard.stop.kind in ("end", "eof"):
                    yield from self._judge(reader, shard)

    def _judge(self, reader: Reader, shard: ShardEvidence) -> Iterator[Finding]:
        title = reader.title.split(" (")[0]
        if not shard.members:
            text = f"{title} finds a sample without an image: the shard has no files"
            yield self._finding(reader, shard, text, Tally(), None)
        for name in ("name.no-field", "name.meta"):
            if (tally := shard.tally(name)).count:
                more = how_many(tally.count, "more sample")
                text = f"{title} finds {more} without an image: a file without an extension is one"
                yield self._finding(reader, shard, text, tally, self.repair(shard.url) if shard.samples else None)
                return
        if count := refused_images(shard):
            text = f"{title} does not decode {how_many(count, 'image')} that Pillow decodes"
            yield self._finding(reader, shard, text, shard.tally("image.wrong-extension"), None)

    def _finding(self, reader: Reader, shard: ShardEvidence, message: str, place: Tally, fix: Repair | None) -> Finding:
        return Finding(
            code=self.code,
            severity=self.severity,
            message=message,
            shard=shard.url,
            key=place.key,
            offset=place.offset if place.count else None,
            count=1,
            readers=(reader.name,),
            repair=fix,
        )
