"""Samples with fields from a table, as ``graft`` writes them, without writing them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Event

import numpy as np

from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.records.line import Counts
from wdsflow.reshaping.graft.graft_errors import NoMatch
from wdsflow.reshaping.graft.graft_report import ShardGraft
from wdsflow.reshaping.graft.graft_shard import grafted_pieces
from wdsflow.reshaping.graft.join_samples import ABSENT, AMBIGUOUS, DAMAGED, WITHOUT
from wdsflow.reshaping.graft.look_shard import ROWS, LookJob, ShardLook
from wdsflow.reshaping.graft.run_graft import GraftOptions, GraftRun
from wdsflow.shards.source.base import Piece, Source, SourceError
from wdsflow.text.words import how_many

from .shard_tars import OpenTar, Tars

_NO_ROW = "no row in the table"


@dataclass(frozen=True, kw_only=True)
class _ServedTar(LookJob):
    """A tar of the layer below, to be joined with the table."""

    tars: Tars
    number: int

    @contextmanager
    def opened(self) -> Iterator[tuple[Source, str]]:
        """Open the tar for a block. Raises SourceError."""
        with self._open() as tar:
            yield tar.source, ""

    def identity(self) -> dict[str, object]:
        """Return the ETag of its bytes. Raises SourceError."""
        with self._open() as tar:
            return {"etag": tar.etag}

    def _open(self) -> OpenTar:
        try:
            return self.tars.open(self.number)
        except (ValueError, OSError) as error:
            raise SourceError("io", str(error)) from None


class GraftedSamples:
    """Samples with fields from a table: see ``ChosenSamples``.

    All tars are read first, as by ``graft``: whether a sample is ambiguous depends on all others.

    Args:
        below: the tars whose samples get the fields.
        options: the table, and the fields to set.
        folder: an empty folder, for an index of the table.
        where: the predicate that has left out samples, if any.

    Raises:
        NoMatch, AmbiguousJoin, ContradictedJoin, TableError: as ``graft_shards``.
        OSError: the folder cannot be written.
    """

    quick = False

    def __init__(self, below: Tars, options: GraftOptions, folder: Path, where: str = "") -> None:
        self._below, self._options = below, options
        numbers = count()

        def served(url: str, place: Path, scope: str, allow_pipe: bool) -> LookJob:
            return _ServedTar(url, place, scope, allow_pipe, tars=below, number=next(numbers))

        run = GraftRun(options, folder, below.urls, shard=served if below.filters else LookJob)
        try:
            with run.joined():
                self._jobs, self._matches = run.jobs, run.matches
        except NoMatch:
            if below.filters and not any(look.samples or look.unread for look in run.looks):
                given = sum(below.count(number).samples for number in range(len(below.urls)))
                raise NoMatch(f"{where or 'the recipe'} keeps none of {given:,} samples") from None
            raise

    def pieces(self, number: int, source: Source) -> tuple[Iterable[Piece], ShardRecord]:
        """Return the pieces of the tar that ``graft`` writes."""
        record, job = self.record(number), self._jobs[number]
        return grafted_pieces(job, source, ShardGraft(job.url), Event()), record

    def record(self, number: int) -> ShardRecord:
        """Return the counts of all samples of a shard."""
        job, look = self._jobs[number], self._readable(number)
        rows, quarantined = job.shard.numbers(ROWS), look.troubles
        if self._below.filters:
            found = self._below.count(number)
            found = replace(
                found, quarantined={**found.quarantined, **quarantined}, kept=found.kept - sum(quarantined.values())
            )
        else:
            found = ShardRecord(number, look.url, look.url, "", look.inputs, samples=len(rows))
            found.quarantined, found.left_out, found.damage = dict(quarantined), look.left_out, list(look.lost)
            found.kept = len(rows) - sum(quarantined.values())
        written = rows != DAMAGED
        if self._options.drop_unmatched:
            without = int(((rows < 0) & written).sum())
            written = rows >= 0
            found = replace(found, kept=found.kept - without, dropped={**found.dropped, _NO_ROW: without})
        found.uncounted = job.shard.uncounted(written)
        found.check()
        return found

    def summary(self) -> str:
        """Return the outcomes of the samples in the join. Raises RuntimeError if they do not add up."""
        found: Counter[int] = Counter()
        for job in self._jobs:
            if not job.look.unread:
                rows = job.shard.numbers(ROWS)
                numbers, counts = np.unique(np.where(rows >= 0, 0, rows), return_counts=True)
                found += Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        del found[DAMAGED]
        Counts("samples", self._matches.matched, found[0], {}).check(str(found))
        return (
            f"{found[0]:,} of {how_many(found.total(), 'sample')} {'has' if found[0] == 1 else 'have'} a row in the table; "
            f"{how_many(found[ABSENT], 'has none', 'have none')}, {how_many(found[AMBIGUOUS], 'is', 'are')} ambiguous, "
            f"{how_many(found[WITHOUT], 'has', 'have')} no value to join on"
        )

    def _readable(self, number: int) -> ShardLook:
        look = self._jobs[number].look
        if look.unread:
            raise SourceError("io", look.lost[0])
        return look
