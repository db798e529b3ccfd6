"""The second pass over a shard: its ranges are copied, and members with the table's values are inserted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from wdsflow.pieces.tar_members import member, members
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.source.base import Piece, Range, Source, SourceChangedError
from wdsflow.shards.tar.plain_entries import Row

from .graft_report import NULL, ShardGraft
from .join_on import FieldToSet
from .join_samples import ABSENT, AMBIGUOUS, DAMAGED, ROWS, VALUES, WITHOUT
from .look_shard import LookJob, ShardLook
from .sample_notes import NotedSamples
from .set_json import BrokenJson, set_in_json
from .table_values import BYTES, UNUSABLE, StoredValue, json_of
from .value_lines import read_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BROKEN_JSON = "its json is not an object"
NO_NAME = "its key holds a zero byte"
TOO_LARGE = "its json is larger than 64 MiB"
_MOST_JSON = 64 << 20
# Bytes of values that are held at once.
_WINDOW = 4 << 20

Pieces = list[Piece]
Values = Sequence[StoredValue]


@dataclass(frozen=True)
class GraftJob:
    """One shard to write to ``target``. ``columns``: in the order of the values of rows; ``decided``: determines its rows."""

    shard: LookJob
    look: ShardLook
    target: Path
    fields: tuple[FieldToSet, ...]
    columns: tuple[str, ...]
    drop_unmatched: bool = False
    decided: str = ""

    @property
    def url(self) -> str:
        """The shard."""
        return self.shard.url


def graft_shard(job: GraftJob, report: ShardGraft, stop: Event) -> None:
    """Write a shard. Raises OSError if it cannot be read, or the output cannot be written."""
    report.lost += job.look.lost
    if job.look.unread:
        return
    rows = job.shard.numbers(ROWS)
    written = (rows >= 0) if job.drop_unmatched else (rows != DAMAGED)
    if not written.any():
        report.samples, report.damaged = len(rows), Counter(job.look.troubles)
        report.unmatched, report.ambiguous = (
            int((rows == ABSENT).sum()),
            int((rows == AMBIGUOUS).sum()),
        )
        report.without = int((rows == WITHOUT).sum())
        report.dropped = report.unmatched + report.ambiguous + report.without
        report.left_out += Counter(job.look.left_out)
        return
    with job.shard.opened() as (source, _):
        report.bytes = write_pieces(job.target, source, grafted_pieces(job, source, report, stop))
    report.output, report.uncounted = str(job.target), job.shard.uncounted(written)


def grafted_pieces(
    job: GraftJob, source: Source, report: ShardGraft, stop: Event
) -> Iterator[Piece]:
    """Yield the pieces of the grafted shard, without end-of-archive blocks; count its samples in ``report``.

    Raises SourceChangedError, also at the end, if the shard has changed; SourceError, OSError.
    """
    pieces = _Pieces(job, source, report)
    if job.look.noted:
        parts, headers = NotedSamples.read(job.shard.files), job.look.headers
    else:
        samples = Samples(source, contents=False)
        touched = dict.fromkeys(each.field for each in job.fields)
        # These grow while the parts are read.
        parts, headers = NotedSamples.of(samples, list(touched)), samples.headers
    rows = read_rows(job.shard.files.with_suffix(VALUES))
    yield from chain.from_iterable(pieces.all(parts, headers, job.shard.numbers(ROWS), rows, stop))
    set_in = ((label, report.matched - pieces.unset[label]) for _, _, label, _ in pieces.fields)
    report.set = Counter({label: count for label, count in set_in if count})
    report.left_out += Counter(job.look.left_out)


class _Pieces:
    """Makes the pieces of the new shard, and counts.

    Attributes:
        fields: values to set: field, name inside it, ``--set``, and the index of the value in a row.
        unset: by ``--set``, samples with a row in which it was not set.
    """

    def __init__(self, job: GraftJob, source: Source, report: ShardGraft) -> None:
        self._job, self._source, self._report = job, source, report
        self.fields = [
            (each.field, each.name, str(each), job.columns.index(each.column))
            for each in job.fields
        ]
        self.unset: Counter[str] = Counter()
        # Then new members need extended headers.
        self._extended = job.look.renaming
        # If only whole fields are set, members of many samples are made at once.
        self._quick = not self._extended and not any(each.name for each in job.fields)

    def all(
        self,
        parts: Iterable[NotedSamples],
        headers: list[Range],
        outcomes: "NDArray[np.int64]",
        rows: Iterator[Values],
        stop: Event,
    ) -> Iterator[Pieces]:
        """Yield the pieces of each sample that is written, and the global headers before them, and count all samples.

        Raises SourceChangedError, also at the end, and OSError.
        """
        report, given = self._report, 0
        for notes in parts:
            numbers, at = outcomes[report.samples :][: len(notes.keys)].tolist(), 0
            if len(numbers) < len(notes.keys):
                raise SourceChangedError
            for found in _values_of(numbers, rows):
                if stop.is_set():
                    raise InterruptedError("given up")
                for values, known in zip(found, self._of_whole(notes, at, found), strict=True):
                    report.samples += 1
                    report.matched += known is not None
                    pieces = known or self._of_sample(notes.sample(at), numbers[at], values)
                    if pieces:
                        report.written += 1
                        while given < len(headers) and headers[given][0] < notes.start[at]:
                            yield [headers[given]]
                            given += 1
                        yield pieces
                    at += 1
        if report.samples != len(outcomes) or self._job.shard.identity() != self._job.look.inputs:
            raise SourceChangedError

    def _of_whole(
        self, notes: NotedSamples, first: int, values: Sequence[Values | None]
    ) -> Sequence[Pieces | None]:
        """Return the pieces of neighbouring samples in which all values are set, as whole fields; None for all others.

        ``first``: the index of the first of them in ``notes``; ``values``: of the row of each, None
        if it has none.
        """
        pieces: list[Pieces | None] = [None] * len(values)
        if not self._quick:
            return pieces
        chosen, names, contents = list[int](), list[bytes](), list[bytes]()
        columns = [(target, notes.fields[target], index) for target, _, _, index in self.fields]
        for at, found in enumerate(values, first):
            if found is None or notes.trouble[at] or "\0" in notes.keys[at]:
                continue
            new_contents = [
                data for _, _, index in columns if (data := _content(found[index])) is not None
            ]
            if len(new_contents) < len(columns):
                continue
            chosen.append(at)
            contents += new_contents
            for target, rows, _ in columns:
                row = rows[at]
                name = row[0] if row is not None else f"{notes.keys[at]}.{target}"
                names.append(name.encode("utf-8", "surrogateescape"))
        new = iter(members(names, contents))
        for at in chosen:
            made = [(rows[at], next(new)) for _, rows, _ in columns]
            pieces[at - first] = _merged(notes.start[at], notes.end[at], made)
        return pieces

    def _of_sample(self, sample: TarSample, outcome: int, values: Values | None) -> Pieces:
        """Return the pieces of a sample, none if it is left out, and count it."""
        report = self._report
        if sample.trouble:
            report.damaged[sample.trouble] += 1
            return []
        if values is not None:
            return self._with_values(sample, values)
        report.unmatched += outcome == ABSENT
        report.ambiguous += outcome == AMBIGUOUS
        report.without += outcome == WITHOUT
        report.dropped += self._job.drop_unmatched
        return [] if self._job.drop_unmatched else [(sample.start, sample.end)]

    def _with_values(self, sample: TarSample, values: Values) -> Pieces:
        """Return the pieces of a sample in which the values of a row are set, or nothing if that is impossible.

        Members that are not set are ranges of the tar. A replaced member keeps its place and name;
        a new one follows the last. A null sets nothing.
        """
        contents: dict[str, bytes] = {}
        inside: list[tuple[str, str]] = []
        unset: list[tuple[str, str]] = []
        for target, name, label, index in self.fields:
            value = values[index]
            if reason := _unfit(value, inside=bool(name)):
                unset.append((label, reason))
            elif name:
                inside.append((name, json_of(value)))
            else:
                contents[target] = value[1] or b""
        wrong = NO_NAME if "\0" in sample.key else ""
        if inside and not wrong:
            wrong = self._set_inside(sample, inside, contents)
        if wrong:
            self._report.impossible[wrong] += 1
            return [(sample.start, sample.end)]
        self._report.matched += 1
        for label, reason in unset:
            self.unset[label] += 1
            self._report.missed[f"{label}: {reason}"] += 1
        made: list[tuple[Row | None, bytes]] = []
        for target, data in contents.items():
            row = sample.fields.get(target)
            name = row[0] if row is not None else f"{sample.key}.{target}"
            made.append((row, member(name, data, extended=self._extended)))
        return _merged(sample.start, sample.end, made)

    def _set_inside(
        self, sample: TarSample, inside: Sequence[tuple[str, str]], contents: dict[str, bytes]
    ) -> str:
        """Add the new json to the contents; return the reason if impossible, otherwise ""."""
        row = sample.fields.get("json")
        if row is not None and row[1] > _MOST_JSON:
            return TOO_LARGE
        try:
            contents["json"] = set_in_json(
                b"" if row is None else self._source.read_at(row[2], row[1]), inside
            )
        except BrokenJson:
            return BROKEN_JSON
        return ""


def _merged(start: int, end: int, made: Sequence[tuple[Row | None, bytes]]) -> Pieces:
    """Return the pieces of a sample with new members: each with the member that it replaces, None if added."""
    pieces: Pieces = []
    there = [(row[3], row[2] + (row[1] + 511 & -512), new) for row, new in made if row is not None]
    for begin, stop, new in sorted(there) if len(there) > 1 else there:
        if begin > start:
            pieces.append((start, begin))
        pieces.append(new)
        start = stop
    if end > start:
        pieces.append((start, end))
    if len(there) < len(made):
        pieces += [new for row, new in made if row is None]
    return pieces


def _values_of(outcomes: Sequence[int], rows: Iterator[Values]) -> Iterator[list[Values | None]]:
    """Yield the values of neighbouring samples, as many at once as fit into little memory; None for those without a row."""
    values: list[Values | None] = []
    size = 0
    for outcome in outcomes:
        row = None
        if outcome >= 0:
            row = next(rows, None)
            if row is None:
                raise OSError(
                    "the rows of the samples are cut: they were changed while they were read"
                )
            size += sum(len(data or b"") for _, data in row)
        values.append(row)
        if size >= _WINDOW:
            yield values
            values, size = [], 0
    if values:
        yield values


def _content(value: StoredValue) -> bytes | None:
    kind, data = value
    return None if kind == UNUSABLE else data


def _unfit(value: StoredValue, *, inside: bool) -> str:
    """Return the reason why a value cannot be set, "" if it can."""
    kind, data = value
    if data is None:
        return NULL
    if kind == UNUSABLE:
        return data.decode()
    return "bytes, which JSON cannot hold" if inside and kind == BYTES else ""
