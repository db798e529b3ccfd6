"""Samples with fields from a table, as ``graft`` writes them, without writing them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.records.counts import Counts
from wdsflow.reshaping.graft.cells import ABSENT, decoded_at_once
from wdsflow.reshaping.graft.grafted_sample import FieldTally, GraftedFields
from wdsflow.reshaping.graft.join_samples import AMBIGUOUS, DAMAGED, WITHOUT, SampleJoin, cells_file, rows_file
from wdsflow.reshaping.graft.look_shard import numbers_in, uncounted_of
from wdsflow.reshaping.graft.refused_joins import NoMatch
from wdsflow.reshaping.graft.run_graft import GraftOptions, GraftRun
from wdsflow.shards.output_names import output_names
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.text.words import how_many

from .tar_view import Piece

_NO_ROW = "no row in the table"


class GraftedSamples:
    """Samples with fields from a table: see ``ChosenSamples``.

    All shards are looked at first, as by ``graft``: whether samples are ambiguous depends on all of them.

    Args:
        urls: the shards.
        options: the table, and what is set.
        folder: an empty folder, for the table as it is looked up.
        choice: which samples there are; by default all. Others are left out before the join.

    Raises:
        NoMatch, AmbiguousJoin, ContradictedJoin, TableError: as ``graft_shards``.
        ValueError: the ledger was made with stages.
        OSError: the folder cannot be written.
    """

    quick = False

    def __init__(
        self, urls: Sequence[str], options: GraftOptions, folder: Path, choice: LedgerSubset | None = None
    ) -> None:
        if choice is not None and choice.recipe.stages:
            raise ValueError(
                "the ledger was made with stages, which change samples: cut first, and graft what cut writes"
            )
        self._urls, self._options = list(urls), options
        targets = [folder / name for name in output_names(urls)]
        run = GraftRun(options, folder, urls, targets, None, None)
        self._places = [run.place(target) for target in targets]
        self._kept: dict[int, ShardRecord] = {}
        with run.table() as join:
            self._looks = run.look(join)
            if choice is not None:
                self._choose(choice, join)
            self._matches = run.decide(join, self._looks)
        self._fields = GraftedFields(options.fields, run.columns)

    def _choose(self, choice: LedgerSubset, join: SampleJoin) -> None:
        for number in range(len(self._urls)):
            self._leave_out(number, choice, join)
        found = self._kept.values()
        if len(found) == len(self._urls) and not any(record.kept for record in found):
            raise NoMatch(
                f"{choice.where or 'the recipe'} keeps none of {sum(record.samples for record in found):,} samples", []
            )

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the parts of the tar that ``graft`` writes."""
        self._readable(number)
        return self._pieces(number, source), self.record(number)

    def _pieces(self, number: int, source: Source) -> Iterator[Piece]:
        rows = numbers_in(rows_file(self._places[number]))
        samples, tally, headers = Samples(source, contents=False), FieldTally(), 0
        renaming = self._looks[number].renaming
        count = 0
        with open(cells_file(self._places[number]), "rb") as cells:
            values = chain.from_iterable(decoded_at_once(cells, rows.tolist()))
            for count, sample in enumerate(samples, 1):
                if count > len(rows):
                    raise SourceChangedError
                row, found = int(rows[sample.number]), next(values)
                if row == DAMAGED or (row < 0 and self._options.drop_unmatched):
                    continue
                while headers < len(samples.headers) and samples.headers[headers][0] < sample.start:
                    yield samples.headers[headers]
                    headers += 1
                if found is None:
                    yield sample.start, sample.end
                else:
                    yield from self._fields.pieces(sample, samples.read, found, tally, extended=renaming)[0]
        if count != len(rows) or input_identity(self._urls[number]) != self._looks[number].inputs:
            raise SourceChangedError

    def record(self, number: int) -> ShardRecord:
        """Return what becomes of all samples of a shard."""
        look = self._readable(number)
        rows = numbers_in(rows_file(self._places[number]))
        found = self._kept.get(number)
        if found is None:
            found = ShardRecord(number, look.url, look.url, "", look.inputs, samples=len(rows))
            found.quarantined, found.left_out, found.damage = dict(look.troubles), look.left_out, list(look.lost)
            found.kept = len(rows) - sum(look.troubles.values())
        if self._options.drop_unmatched:
            gone = int(((rows < 0) & (rows != DAMAGED)).sum())
            found = replace(found, kept=found.kept - gone, dropped={**found.dropped, _NO_ROW: gone})
        found.uncounted = uncounted_of(
            self._places[number], (rows >= 0) if self._options.drop_unmatched else rows != DAMAGED
        )
        found.check()
        return found

    def summary(self) -> str:
        """Return what became of the samples in the join. Raises RuntimeError if they do not add up."""
        found: Counter[int] = Counter()
        for look, place in zip(self._looks, self._places, strict=True):
            if not look.unread:
                rows = numbers_in(rows_file(place))
                numbers, counts = np.unique(np.where(rows >= 0, 0, rows), return_counts=True)
                found += Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        del found[DAMAGED]
        Counts("samples", self._matches.matched, found[0], {}).check(str(found))
        return (
            f"{found[0]:,} of {how_many(found.total(), 'sample')} {'has' if found[0] == 1 else 'have'} a row in the table; "
            f"{how_many(found[ABSENT], 'has none', 'have none')}, {how_many(found[AMBIGUOUS], 'is', 'are')} ambiguous, "
            f"{how_many(found[WITHOUT], 'has', 'have')} no value to join on"
        )

    def _readable(self, number: int) -> Any:
        look = self._looks[number]
        if look.unread:
            raise SourceError("io", look.lost[0])
        return look

    def _leave_out(self, number: int, choice: LedgerSubset, join: SampleJoin) -> None:
        """Take samples that are not kept for damaged ones, which are in no tar."""
        look = self._looks[number]
        if look.unread:
            return
        try:
            kept, record = choice.shard(look.url).decide(number)
            if record.input != look.inputs or record.samples != look.samples:
                raise SourceChangedError
        except (ValueError, OSError) as error:
            look.unread, look.lost = True, [str(error)]
            join.forget(number)
            return
        self._kept[number] = record
        out = np.ones(look.samples, np.bool_)
        out[[row.number for row in kept]] = False
        join.leave_out(number, out)
