"""The pieces of samples with new members.

They are ranges of the old shard, and members with the table's values.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from wdsflow.joining.row_contents import (
    BROKEN_JSON,
    LARGEST_JSON,
    NO_NAME,
    TOO_LARGE,
    Values,
    row_contents,
    values_to_set,
)
from wdsflow.joining.sample_pieces import NewMember, Pieces, member_name, merged_pieces
from wdsflow.joining.set_json import BrokenJson, set_in_json
from wdsflow.joining.table_values import UNUSABLE
from wdsflow.pieces.tar_members import member, members
from wdsflow.shards.samples.tar_samples import TarSample
from wdsflow.shards.source.base import Range, Source, SourceChangedError

from .graft_job import GraftJob
from .graft_report import ShardGraft
from .matches import ABSENT, AMBIGUOUS, WITHOUT
from .sample_notes import NotedSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes of values that are held at once.
_WINDOW = 4 << 20


class GraftPieces:
    """Makes the pieces of the new shard, and counts its samples in the report.

    Attributes:
        unset: by ``--set``, samples with a row in which it was not set.
    """

    def __init__(self, job: GraftJob, source: Source, report: ShardGraft) -> None:
        self._job = job
        self._source = source
        self._report = report
        self.unset: Counter[str] = Counter()
        self._values = values_to_set(job.fields, job.columns)
        # Then new members need extended headers.
        self._extended = job.look.has_renaming_header
        # If only whole fields are set, members of many samples are made at once.
        sets_inside = any(value.name for value in self._values)
        self._is_quick = not self._extended and not sets_inside

    def of_samples(
        self,
        parts: Iterable[NotedSamples],
        headers: list[Range],
        outcomes: "NDArray[np.int64]",
        rows: Iterator[Values],
        stop: Event,
    ) -> Iterator[Pieces]:
        """Yield the pieces of each sample that is written, and count all samples.

        Global headers before a sample are included.

        Raises SourceChangedError, also at the end, and OSError.
        """
        report = self._report
        headers_written = 0
        for notes in parts:
            numbers = outcomes[report.samples :][: len(notes.keys)].tolist()
            if len(numbers) < len(notes.keys):
                raise SourceChangedError
            for index, pieces in enumerate(self._pieces_of_notes(notes, numbers, rows, stop)):
                if not pieces:
                    continue
                report.written += 1
                start = notes.start[index]
                while headers_written < len(headers) and headers[headers_written][0] < start:
                    yield [headers[headers_written]]
                    headers_written += 1
                yield pieces
        if report.samples != len(outcomes) or self._job.shard.identity() != self._job.look.inputs:
            raise SourceChangedError

    def _pieces_of_notes(
        self, notes: NotedSamples, outcomes: Sequence[int], rows: Iterator[Values], stop: Event
    ) -> Iterator[Pieces]:
        """Yield the pieces of each of these samples, none for one that is left out."""
        index = 0
        for values in _windows(outcomes, rows):
            if stop.is_set():
                raise InterruptedError("given up")
            of_whole_fields = self._pieces_of_whole_fields(notes, index, values)
            for sample_values, pieces in zip(values, of_whole_fields, strict=True):
                self._report.samples += 1
                if pieces is None:
                    yield self._pieces_of_sample(
                        notes.sample(index), outcomes[index], sample_values
                    )
                else:
                    self._report.matched += 1
                    yield pieces
                index += 1

    def _pieces_of_whole_fields(
        self, notes: NotedSamples, first: int, values: Sequence[Values | None]
    ) -> Sequence[Pieces | None]:
        """Return the pieces of adjacent samples whose values are all set as whole fields.

        None for all other samples.

        Args:
            notes: have the samples.
            first: the index of the first of them in ``notes``.
            values: of the row of each, None if it has none.
        """
        pieces: list[Pieces | None] = [None] * len(values)
        if not self._is_quick:
            return pieces
        chosen: list[int] = []
        names: list[bytes] = []
        contents: list[bytes] = []
        for index, sample_values in enumerate(values, first):
            if sample_values is None or notes.trouble[index] or "\0" in notes.keys[index]:
                continue
            sample_contents = self._whole_contents(sample_values)
            if sample_contents is None:
                continue
            chosen.append(index)
            contents += sample_contents
            for value in self._values:
                row = notes.fields[value.field][index]
                name = member_name(row, notes.keys[index], value.field)
                names.append(name.encode("utf-8", "surrogateescape"))
        made = iter(members(names, contents))
        for index in chosen:
            replaced = [notes.fields[value.field][index] for value in self._values]
            new_members = [(row, next(made)) for row in replaced]
            pieces[index - first] = merged_pieces(notes.start[index], notes.end[index], new_members)
        return pieces

    def _whole_contents(self, values: Values) -> list[bytes] | None:
        """Return the contents of all fields; None if one of the values cannot be set."""
        contents: list[bytes] = []
        for value in self._values:
            kind, data = values[value.column]
            if kind == UNUSABLE or data is None:
                return None
            contents.append(data)
        return contents

    def _pieces_of_sample(self, sample: TarSample, outcome: int, values: Values | None) -> Pieces:
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
        if self._job.drop_unmatched:
            report.dropped += 1
            return []
        return [(sample.start, sample.end)]

    def _with_values(self, sample: TarSample, values: Values) -> Pieces:
        """Return the pieces of a sample with the values of a row set.

        If that is impossible, the sample stays as it is.

        Members that are not set are ranges of the tar. A replaced member keeps its position and
        name; a new one follows the last. A null sets nothing.
        """
        contents, inside, unset = row_contents(self._values, values)
        problem = NO_NAME if "\0" in sample.key else ""
        if inside and not problem:
            problem = self._set_inside(sample, inside, contents)
        if problem:
            self._report.impossible[problem] += 1
            return [(sample.start, sample.end)]
        self._report.matched += 1
        for label, reason in unset:
            self.unset[label] += 1
            self._report.missed[f"{label}: {reason}"] += 1
        new_members: list[NewMember] = []
        for field, data in contents.items():
            row = sample.fields.get(field)
            name = member_name(row, sample.key, field)
            new_members.append((row, member(name, data, extended=self._extended)))
        return merged_pieces(sample.start, sample.end, new_members)

    def _set_inside(
        self, sample: TarSample, inside: Sequence[tuple[str, str]], contents: dict[str, bytes]
    ) -> str:
        """Add the new json to the contents; return the reason if impossible, otherwise ""."""
        row = sample.fields.get("json")
        old = b""
        if row is not None:
            if row[1] > LARGEST_JSON:
                return TOO_LARGE
            old = self._source.read_at(row[2], row[1])
        try:
            contents["json"] = set_in_json(old, inside)
        except BrokenJson:
            return BROKEN_JSON
        return ""


def _windows(outcomes: Sequence[int], rows: Iterator[Values]) -> Iterator[list[Values | None]]:
    """Yield the values of adjacent samples, in groups that fit into little memory.

    Samples without a row have None.
    """
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
