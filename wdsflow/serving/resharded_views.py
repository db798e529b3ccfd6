"""The samples of served shards in tars of other sizes or in another order, as ``reshard`` would write them."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import NamedTuple

from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.reshaping.reshard.arrange import arrange
from wdsflow.reshaping.reshard.input_report import InputReport
from wdsflow.reshaping.reshard.members_apart import refuse_apart
from wdsflow.reshaping.reshard.output_pieces import PlannedOutput, output_pieces, repeated_keys
from wdsflow.reshaping.reshard.read_inputs import CANNOT_READ, InputJob, note_samples
from wdsflow.reshaping.reshard.reshard_options import ReshardOptions
from wdsflow.reshaping.reshard.reshard_report import OutputReport
from wdsflow.reshaping.reshard.shard_bounds import bounds_of
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.tar.tar_header import BLOCK
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.shards.write_shard import ShortSourceError
from wdsflow.text.words import how_many, size

from .joined_views import JoinedLayout, JoinedViews, ViewFacts, ViewSource
from .shard_views import MEMORY, KeptTars, ServedTar, ShardViews, etag_of, is_local
from .tar_view import Piece, TarView

_THREADS = 4  # most of their time goes into reading
_JOINED = "taken for a part of the sample before, of the same key"


class NotAllServed(ValueError):
    """Shards that cannot be served: in tars of other sizes nobody would notice what is missing.

    ``lines``: each shard, and why.
    """

    def __init__(self, lines: Sequence[str], shards: int) -> None:
        super().__init__(f"{len(lines):,} of {shards:,} shards cannot be served")
        self.lines = list(lines)


class CannotShuffle(ValueError):
    """Samples that cannot be sent in another order at a bearable cost: new fields larger than memory, shards of servers."""


class _Looked(NamedTuple):
    """What is known of a shard when its samples are listed; ``weight``: bytes of memory that its view takes."""

    record: ShardRecord
    facts: ViewFacts
    weight: int


@dataclass(frozen=True)
class _Resharded(ServedTar):
    """A tar of ranges of all shards. ``needs``: the numbers of those with a range in it."""

    needs: tuple[int, ...] = ()

    def parts(self, source: Source, start: int, stop: int) -> Iterator[tuple[Source, Piece]]:
        """Yield the parts of bytes with their sources: files where these are on this machine."""
        assert isinstance(source, JoinedViews)
        for part in self.view.parts(start, stop):
            if isinstance(part, bytes):
                yield source, part
            else:
                yield from source.parts(*part)

    def changed(self, source: Source) -> bool:
        """Return whether a shard that was read is another one by now."""
        assert isinstance(source, JoinedViews)
        return source.changed()


class ReshardedViews:
    """Tars of other sizes, by their numbers. Threads may share it.

    Reads the headers of all shards first. A shard that changes afterwards ends the answers that need it.

    Args:
        views: what is served of each shard.
        options: sizes and order; no parts, and not by key.
        folder: an empty folder, for a table of all samples: 32 bytes for each, for a moment up to four times that.
        begin: for a display of progress.

    Raises:
        NotAllServed: a shard cannot be read, or its ledger does not fit.
        CannotShuffle: another order would cost too much.
        MembersApart: members of a sample are not next to each other.
        ValueError: there are fewer samples than tars.
        OSError: the folder cannot be written.
    """

    filters = False

    def __init__(self, views: ShardViews, options: ReshardOptions, folder: Path, begin: Begin | None = None) -> None:
        self._views, self._kept = views, KeptTars[_Resharded]()
        self._inputs = [InputReport(number, url) for number, url in enumerate(views.urls)]
        near = all(map(is_local, views.urls))
        if options.scattered and not near:
            raise CannotShuffle("shards of a server cannot be served in another order: each sample would be a request")
        jobs = [InputJob(number, url, folder, anywhere=False, keys=False) for number, url in enumerate(views.urls)]
        answers: dict[int, _Looked | str] = {}
        run_in_threads(jobs, self._look, lambda job, answer: answers.update({job.number: answer}), _THREADS, begin)
        found = [answers[job.number] for job in jobs]
        if failed := [each for each in found if isinstance(each, str)]:
            raise NotAllServed(failed, len(jobs))
        looked = [each for each in found if not isinstance(each, str)]
        weight = sum(each.weight for each in looked)
        if options.scattered and weight > MEMORY:
            raise CannotShuffle(f"the new fields take {size(weight)}, too much to serve them in another order")
        self.records = [each.record for each in looked]  # what becomes of the samples of each shard
        refuse_apart(self._inputs, lambda each: ViewSource(*views.open(each.number)))
        (self._rows,), _ = arrange(jobs, options, folder)
        self._rows.hold()
        sources = sum(each.rows > 0 for each in self._inputs)
        self._bounds = bounds_of(self._rows, options, sources)
        self._layout = JoinedLayout([each.facts for each in looked], near=near)
        self._etags = [each.facts.etag for each in looked]
        self.sizes = [bounds.end - bounds.start for bounds in self._bounds]  # samples of each tar
        self.urls = [
            f"shard {number:,} of {len(self.sizes):,}, {how_many(samples, 'sample')}"
            for number, samples in enumerate(self.sizes, 1)
        ]
        with closing(JoinedViews(views, self._layout)) as inputs:
            planned = (self._planned(number, inputs) for number in range(len(self.sizes)))
            self.renamed = sum(len(repeated_keys(each)) for each in planned)  # samples that get another key

    @property
    def lost(self) -> bool:
        """Whether anything of the shards could not be read whole."""
        return any(each.lost or each.unusable for each in self._inputs)

    def open(self, number: int) -> tuple[ServedTar, Source]:
        """Return a tar and what it consists of, which the caller closes. Raises SourceError, OSError."""
        served, joined = self._kept.get(number, self._built), JoinedViews(self._views, self._layout)
        try:
            joined.refuse_changed(served.needs)  # an answer that begins cannot be refused any more
        except BaseException:
            joined.close()
            raise
        return served, joined

    def get(self, number: int) -> ServedTar:
        """Return a tar. Raises SourceError, OSError."""
        return self._kept.get(number, self._built)

    def count(self, number: int) -> ShardRecord:
        """Return how many samples a tar has."""
        samples = self.sizes[number]
        return ShardRecord(number, self.urls[number], "", "", {}, samples=samples, kept=samples)

    def _look(self, job: InputJob, stop: Event) -> _Looked | str:
        """Note the samples of a view, and return what is known of its shard; a text why, if it cannot be served."""
        found = self._inputs[job.number]
        try:
            served, opened = self._views.open(job.number)
            source = ViewSource(served, opened)
            with source:
                if note_samples(source, job, found, stop):
                    raise SourceError("refused", "a global header changes its members")
                if source.changed():
                    raise SourceChangedError
            facts = ViewFacts(served.view.size, served.etag, served.mark)
            return _Looked(self._record(served, found), facts, served.view.weight)
        except (ValueError, OSError) as error:
            if isinstance(error, InterruptedError) or not _is_of_shard(error):
                raise
            return f"{job.url}: {error}"

    def _record(self, served: ServedTar, found: InputReport) -> ShardRecord:
        """Return what becomes of the samples of a shard."""
        record = served.record or ShardRecord(
            found.number, found.url, found.url, "", {}, samples=found.samples, kept=found.samples,
            members=found.members, left_out=dict(found.left_out), damage=found.damage,
        )  # fmt: skip
        if record.kept < found.samples:
            raise RuntimeError(f"{record.url}: {record.kept} samples are kept, and {found.samples} were found")
        dropped = dict(record.dropped)
        for reason, count in {**found.dropped, _JOINED: record.kept - found.samples}.items():
            if count:
                dropped[reason] = dropped.get(reason, 0) + count
        record = replace(record, kept=found.rows, uncounted=0, dropped=dropped)
        record.check()
        return record

    def _built(self, number: int) -> _Resharded:
        with closing(JoinedViews(self._views, self._layout)) as inputs:
            view = TarView(chain(self._pieces(self._planned(number, inputs)), [bytes(2 * BLOCK)]))
            if inputs.changed():  # headers of samples that get another key were read
                raise SourceChangedError
        ranges = (part for part in view.parts(0, view.size) if not isinstance(part, bytes))
        needs = {number for part in ranges for number, _, _ in self._layout.parts(*part)}
        return _Resharded(view, (), etag_of(view, {"shards": self._etags}), needs=tuple(needs))

    def _planned(self, number: int, inputs: JoinedViews) -> PlannedOutput:
        return PlannedOutput(self._rows, self._bounds[number], inputs, scattered=False)

    def _pieces(self, planned: PlannedOutput) -> Iterator[Piece]:
        for piece in output_pieces(planned, OutputReport()):
            if isinstance(piece, bytes):
                yield piece
            else:
                start = self._layout.starts[piece.number]
                yield start + piece.start, start + piece.end


def _is_of_shard(error: Exception) -> bool:
    """Return whether an error is of a shard, and not of the folder for the table."""
    return (
        not isinstance(error, OSError)
        or isinstance(error, SourceError | ShortSourceError)
        or error.errno in CANNOT_READ
    )
