"""The samples of served tars in tars of other sizes or in another order, as ``reshard`` would write them."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event

from wdsflow.filtering.run_folder import ShardRecord
from wdsflow.pieces.pieces import END, number_of
from wdsflow.pieces.tar_view import JoinedSource, TarView, ViewSource
from wdsflow.reshaping.reshard.arrange import arrange, bounds_of
from wdsflow.reshaping.reshard.read_inputs import InputJob, most_files, note_samples, refuse_apart
from wdsflow.reshaping.reshard.reshard_options import ReshardOptions
from wdsflow.reshaping.reshard.reshard_report import InputReport, OutputReport
from wdsflow.reshaping.reshard.write_parts import OutputJob, output_pieces, repeated_keys
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.text.words import how_many, size

from .shard_tars import MEMORY, KeptTars, MadeTar, OpenTar, Tars, etag_of, is_local

_THREADS = 4  # most of their time goes into reading
_CLIENTS = 64  # for whom there are open files
_OPEN = 64  # shards that each of them keeps open at most
_JOINED = "taken for a part of the sample before, of the same key"


class NotAllServed(ValueError):
    """Shards that cannot be served: in tars of other sizes a missing sample would not be noticed.

    ``lines``: each shard, and why.
    """

    def __init__(self, lines: Sequence[str], shards: int) -> None:
        super().__init__(f"{len(lines):,} of {shards:,} shards cannot be served")
        self.lines = list(lines)


class CannotShuffle(ValueError):
    """Samples that cannot be sent in another order at a bearable cost: new fields larger than memory, shards of servers."""


_Looked = tuple[ShardRecord, str, int]  # what is known of a tar when its samples are listed; its etag, and its weight


class _OpenTars(JoinedSource):
    """Tars as one source, for one client. One that is not what it was when its samples were listed raises SourceError."""

    def __init__(self, tars: Tars, etags: Sequence[str]) -> None:
        most = max(4, min(_OPEN, most_files() // (2 * _CLIENTS)))
        super().__init__(self._opened, lambda _: most)
        self.near = all(map(is_local, tars.urls))
        self._tars, self._etags = tars, etags
        self._of: dict[int, OpenTar] = {}

    @contextmanager
    def _opened(self, number: int) -> Iterator[Source]:
        url = self._tars.urls[number]
        try:
            tar = self._tars.open(number)
        except (ValueError, OSError) as error:
            raise SourceError("io", f"{url}: {error}") from None
        with tar:
            if tar.etag != self._etags[number]:
                raise _replaced(url)
            self._of[number] = tar
            yield tar.source
        del self._of[number]

    def changed(self) -> bool:
        """Return whether a tar that is open is another one by now. Raises SourceError, OSError."""
        return any(tar.changed() for tar in self._of.values())

    def evict(self, number: int) -> None:
        """Close a tar. Raises SourceChangedError if its input has changed since it was read."""
        changed = self._of[number].changed()
        super().evict(number)
        if changed:
            raise SourceChangedError(self._tars.urls[number])


def _replaced(url: str) -> SourceError:
    return SourceError("io", f"{url} is not what it was when serve began: stop serve, and start it again")


class ReshardedTars:
    """Tars of other sizes: see ``Tars``.

    Reads the headers of all tars below first. One that changes afterwards ends the answers that need it.

    Args:
        below: what is served of each shard.
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

    def __init__(self, below: Tars, options: ReshardOptions, folder: Path, begin: Begin | None = None) -> None:
        self._below, self._kept = below, KeptTars(self._made)
        self._inputs = [InputReport(number, url) for number, url in enumerate(below.urls)]
        if options.scattered and not all(map(is_local, below.urls)):
            raise CannotShuffle("shards of a server cannot be served in another order: each sample would be a request")
        jobs = [InputJob(number, url, folder) for number, url in enumerate(below.urls)]
        answers: dict[int, _Looked | str] = {}
        run_in_threads(jobs, self._look, lambda job, answer: answers.update({job.number: answer}), _THREADS, begin)
        found = [answers[job.number] for job in jobs]
        if failed := [each for each in found if isinstance(each, str)]:
            raise NotAllServed(failed, len(jobs))
        looked = [each for each in found if not isinstance(each, str)]
        weight = sum(each for _, _, each in looked)
        if options.scattered and weight > MEMORY:
            raise CannotShuffle(f"the new fields take {size(weight)}, too much to serve them in another order")
        self.records = [record for record, _, _ in looked]  # what becomes of the samples of each shard
        refuse_apart(self._inputs, lambda each: below.open(each.number).source)
        (self._rows,), _ = arrange(jobs, options, folder)
        self._rows.hold()
        bounds = bounds_of(self._rows, options, sum(each.rows > 0 for each in self._inputs))
        self._outputs = [OutputJob(self._rows, *each) for each in bounds]
        self._etags = [etag for _, etag, _ in looked]
        self.sizes = [job.end - job.start for job in self._outputs]  # samples of each tar
        self.urls = [
            f"shard {number:,} of {len(self.sizes):,}, {how_many(samples, 'sample')}"
            for number, samples in enumerate(self.sizes, 1)
        ]
        self.renamed = sum(len(repeated_keys(job)) for job in self._outputs)

    @property
    def lost(self) -> bool:
        """Whether anything of the shards could not be read whole."""
        return any(each.lost or each.dropped for each in self._inputs)

    def prepare(self, number: int) -> None:
        """Decide what a tar consists of."""
        self._kept.get(number)

    def open(self, number: int) -> OpenTar:
        """Return a tar. Raises SourceError, OSError."""
        made = self._kept.get(number)
        for each in made.needs:  # an answer that begins cannot be refused any more
            if self._below.changed(each):
                raise _replaced(self._below.urls[each])
        joined = _OpenTars(self._below, self._etags)
        return OpenTar(ViewSource(made.view, joined), made.etag, joined.changed)

    def changed(self, number: int) -> bool:
        """Return whether a shard has changed since its samples were listed."""
        return any(map(self._below.changed, self._kept.get(number).needs))

    def count(self, number: int) -> ShardRecord:
        """Return how many samples a tar has."""
        samples = self.sizes[number]
        return ShardRecord(number, self.urls[number], "", "", {}, samples=samples, kept=samples)

    def _look(self, job: InputJob, stop: Event) -> _Looked | str:
        """Note the samples of a tar, and return what is known of its shard; a text why, if it cannot be served."""
        found = self._inputs[job.number]
        try:
            with self._below.open(job.number) as tar:
                if note_samples(tar.source, job, found, stop):
                    raise SourceError("refused", "a global header changes its members")
                if tar.changed():
                    raise SourceChangedError
            return self._record(found), tar.etag, tar.source.weight
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and not isinstance(error, SourceError) and error.errno not in UNREADABLE:
                raise  # of the folder for the table, or given up
            return f"{job.url}: {error}"

    def _record(self, found: InputReport) -> ShardRecord:
        """Return what becomes of the samples of a shard."""
        if self._below.filters:
            record = self._below.count(found.number)
        else:
            record = ShardRecord(found.number, found.url, found.url, "", {}, samples=found.samples, kept=found.samples)
            record.members, record.left_out, record.damage = found.members, dict(found.left_out), found.damage
        if record.kept < found.samples:
            raise RuntimeError(f"{record.url}: {record.kept} samples are kept, and {found.samples} were found")
        dropped = dict(record.dropped)
        for reason, count in {**found.dropped, _JOINED: record.kept - found.samples}.items():
            if count:
                dropped[reason] = dropped.get(reason, 0) + count
        record = replace(record, kept=found.rows, uncounted=0, dropped=dropped)
        record.check()
        return record

    def _made(self, number: int) -> MadeTar:
        with closing(_OpenTars(self._below, self._etags)) as joined:
            pieces = output_pieces(self._outputs[number], joined, OutputReport(), Event())
            view = TarView(chain(pieces, [END]))
            if joined.changed():  # headers of samples that get another key were read
                raise SourceChangedError
        needs = {number_of(part[0]) for part in view.parts(0, view.size) if not isinstance(part, bytes)}
        return MadeTar(view, etag_of(self._etags, *view.marks()), needs=tuple(needs))
