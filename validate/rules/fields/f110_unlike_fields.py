from collections.abc import Iterator

from wdsflow.readers.base import Fate
from wdsflow.scan.evidence import Runs, Shape, ShardEvidence
from wdsflow.text.escape import escape

from ...finding import Finding
from ..kit.base import Context, Rule

_LOOKED_AT = 5


class UnlikeFields(Rule):
    """Samples have different fields, but a reader needs the same ones.

    What: the first five samples of the first shard do not have the same fields; or, for Ray Data, an image that the
    first sample of a shard has is missing in a later one.

    Why it matters: Hugging Face datasets, and the viewer of the Hub, read the first five samples and end at once: "The
    TAR archives of the dataset should be in WebDataset format, but the files in the archive don't share the same prefix
    or the same types." Ray Data makes a tensor of each image column and fails on rows without it. OpenCLIP and
    webdataset accept such samples.

    In practice: the data set page on the Hub shows an error instead of pictures (datasets#6880, #7144).

    Fix: give all samples the same fields; an optional field must be in all of the first five, or in none of them.
    ``wdsflow inspect SHARD`` shows the fields in the order of the shard.
    """

    code = "F110"
    severity = "info"
    requires = ("F102", "F103", "F105", "W006", "W010", "W012")

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        if shards:
            starts = {reader.name: reader.at_start(shards) for reader in context.readers}
            yield from self._first_five(context, shards[0], _names(starts))
        for shard in shards:
            crashes = {reader.name: reader.at_shard(shard) for reader in context.readers}
            hurt = _names(crashes)
            if hurt:
                field = next(crash.detail for name, crash in crashes.items() if crash and name in hurt)
                yield Finding(
                    code=self.code,
                    severity="error",
                    message=f'its first sample has "{escape(field, 40)}" and others do not: {context.ending(hurt)}',
                    shard=shard.url,
                    readers=hurt,
                )

    def _first_five(self, context: Context, shard: ShardEvidence, hurt: tuple[str, ...]) -> Iterator[Finding]:
        runs = shard.visible_runs or shard.runs
        if hurt and runs.head is None:
            yield Finding(
                code=self.code,
                severity="error",
                message=f"the first shard has no sample that shows the fields: {context.ending(hurt)}",
                shard=shard.url,
                readers=hurt,
            )
        usual = _fields(runs.head.shape) if runs.head else frozenset()
        for shape, key, offset in _early(runs):
            if _fields(shape) != usual:
                first, then = (escape(", ".join(sorted(fields)), 80) for fields in (usual, _fields(shape)))
                yield Finding(
                    code=self.code,
                    severity="error" if hurt else self.severity,
                    message=f"the first samples differ in fields ({first}; then {then}): "
                    "the viewer of the Hugging Face Hub refuses the set",
                    shard=shard.url,
                    key=key,
                    offset=offset,
                    readers=hurt,
                )
                return


def _names(crashes: dict[str, Fate | None]) -> tuple[str, ...]:
    return tuple(name for name, crash in crashes.items() if crash is not None and crash.reason == "schema")


def _early(runs: Runs) -> Iterator[tuple[Shape, str, int]]:
    """Yield each new shape among the second to fifth run."""
    for item in runs.inner:
        if 1 + sum(item.before) < _LOOKED_AT:
            yield item.shape, item.key, item.offset
    if runs.tail is not None and 1 + sum(item.count for item in runs.inner) < _LOOKED_AT:
        yield runs.tail.shape, runs.tail.key, runs.tail.offset


def _fields(shape: Shape) -> frozenset[str]:
    return frozenset(part.suffix for part in shape)
