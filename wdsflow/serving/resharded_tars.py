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
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError, local_file
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.text.words import how_many, size

from .shard_tars import MEMORY, KeptTars, MadeTar, OpenTar, Tars, etag_of

_THREADS = 4  # most of their time goes into reading
_CLIENTS = 64  # that share the limit on open files
_OPEN = 64  # shards that each client keeps open at most
_JOINED = "taken for a part of the sample before, of the same key"


class NotAllServed(ValueError):
    """Shards that cannot be served: in tars of other sizes, a missing sample would go unnoticed.

    ``lines``: each shard, and why.
    """

    def __init__(self, lines: Sequence[str], shards: int) -> None:
        super().__init__(f"{len(lines):,} of {shards:,} shards cannot be served")
        self.lines = list(lines)


class CannotShuffle(ValueError):
    """Serving in another order would cost too much: new fields are larger than memory, or shards are on a server."""


_Listed = tuple[
    ShardRecord, str, int
]  # of a tar whose samples are listed: its counts, its ETag, and its bytes in memory


class _OpenTars(JoinedSource):
    """Tars as one source, for one client. Raises SourceError for a tar that has changed since its samples were listed."""

    def __init__(self, tars: Tars, etags: Sequence[str]) -> None:
        most = max(4, min(_OPEN, most_files() // (2 * _CLIENTS)))
        super().__init__(self._opened, lambda _: most)
        self.near = all(map(local_file, tars.urls))
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
        """Return whether an open tar has changed. Raises SourceError, OSError."""
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

    The headers of all tars below are read first. If a tar changes afterwards, responses that need it fail.

    Args:
        below: the tars whose samples are served.
        options: sizes and order; no parts, and not by key.
        folder: an empty folder, for a table of all samples: 32 bytes for each, briefly up to four times that.
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
        if options.scattered and not all(map(local_file, below.urls)):
            raise CannotShuffle("shards of a server cannot be served in another order: each sample would be a request")
        jobs = [InputJob(number, url, folder) for number, url in enumerate(below.urls)]
        answers: dict[int, _Listed | str] = {}
        run_in_threads(jobs, self._list, lambda job, answer: answers.update({job.number: answer}), _THREADS, begin)
        found = [answers[job.number] for job in jobs]
        if failed := [each for each in found if isinstance(each, str)]:
            raise NotAllServed(failed, len(jobs))
        looked = [each for each in found if not isinstance(each, str)]
        weight = sum(each for _, _, each in looked)
        if options.scattered and weight > MEMORY:
            raise CannotShuffle(f"the new fields take {size(weight)}, too much to serve them in another order")
        self.records = [record for record, _, _ in looked]  # counts of the samples of each shard
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
        """Whether some part of the shards could not be read."""
        return any(each.lost or each.dropped for each in self._inputs)

    def prepare(self, number: int) -> None:
        """Compute the contents of a tar, unless they are cached."""
        self._kept.get(number)

    def open(self, number: int) -> OpenTar:
        """Return a tar. Raises SourceError, OSError."""
        made = self._kept.get(number)
        for each in made.needs:  # once a response has begun, it cannot become an error
            if self._below.changed(each):
                raise _replaced(self._below.urls[each])
        joined = _OpenTars(self._below, self._etags)
        return OpenTar(ViewSource(made.view, joined), made.etag, joined.changed)

    def changed(self, number: int) -> bool:
        """Return whether a shard has changed since its samples were listed."""
        return any(map(self._below.changed, self._kept.get(number).needs))

    def count(self, number: int) -> ShardRecord:
        """Return the number of a tar's samples."""
        samples = self.sizes[number]
        return ShardRecord(number, self.urls[number], "", "", {}, samples=samples, kept=samples)

    def _list(self, job: InputJob, stop: Event) -> _Listed | str:
        """List the samples of a tar, and return its counts; the reason, if it cannot be served."""
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
                raise  # the folder for the table failed, or the run was interrupted
            return f"{job.url}: {error}"

    def _record(self, found: InputReport) -> ShardRecord:
        """Return the counts of a shard's samples."""
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
