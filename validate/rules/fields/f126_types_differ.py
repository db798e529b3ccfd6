from collections.abc import Iterator

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, TallyRule
from ..kit.rule_commands import renamed, repair


class TypesDiffer(TallyRule):
    """The values of a column change their type.

    What: json, arrays or msgpack have values of other types than those of the first five samples; or the first samples
    do not agree, or hold values that Arrow does not accept, such as a list of numbers and strings, or an integer of
    more than 64 bits.

    Why it matters: Hugging Face datasets take the types of their columns from the first five samples of the first
    shard. Later values are converted to these types. A string in a column of numbers, a number instead of a list, or a
    list instead of an object ends the reader with an exception, often after hours. Missing names and null are fine.
    Without streaming, all values are written to tables first, which are stricter: a value in a column that had only
    null, an integer of more than 64 bits, or a list of unlike values ends the reader as well.

    In practice: sizes that are null or "unknown" after a failed download, tags that are one string or a list of
    strings, metadata of several sources in one set.

    Fix: write the values with one type, or keep the field as bytes, which fit any column: ``wdsflow repair URL... -o
    repaired --rename json=json_raw``
    """

    code = "F126"
    severity = "error"
    tallies = ("column.misfit", "column.unwritable")

    def check(self, context: Context) -> Iterator[Finding]:
        hurt = tuple(reader.name for reader in context.readers if reader.makes_columns)
        shards = context.evidence.shards
        if not hurt or not shards:
            return
        columns = shards[0].columns
        if columns is not None and columns.error:
            told = (
                f"the first samples give the column {escape(columns.field, 40)} no type ({escape(columns.error, 120)})"
            )
            yield self._finding(context, shards[0], hurt, told, columns.field, Tally())
        for shard in shards:
            tally = shard.tally("column.misfit")
            if tally.count:
                field, _, error = tally.detail.partition(": ")
                verb = "does" if tally.count == 1 else "do"
                told = f"{how_many(tally.count, 'value')} {verb} not fit the type of the column (first: {escape(field, 40)}, "
                told += f"{escape(error, 120)})"
                yield self._finding(context, shard, hurt, told, field, tally)
        writing = tuple(reader.name for reader in context.readers if reader.writes_tables)
        for shard in shards if writing else ():
            tally = shard.tally("column.unwritable")
            if tally.count:
                field, _, error = tally.detail.partition(": ")
                told = f"{how_many(tally.count, 'value')} cannot be written to a table (first: {escape(field, 40)}, "
                yield self._finding(context, shard, writing, f"{told}{escape(error, 120)})", field, tally)

    def _finding(
        self, context: Context, shard: ShardEvidence, hurt: tuple[str, ...], told: str, field: str, tally: Tally
    ) -> Finding:
        return Finding(
            code=self.code,
            severity=self.severity,
            message=f"{told}; {context.ending(hurt)}",
            shard=shard.url,
            key=tally.key,
            offset=tally.offset,
            count=tally.count,
            readers=hurt,
            repair=self._as_bytes(context, field),
        )

    def _as_bytes(self, context: Context, field: str) -> Repair | None:
        name = field.lower()
        new = renamed(name)
        return (
            repair(context.targets(), "--rename", f"{name}={new}", note="readers leave it as bytes then")
            if new
            else None
        )
