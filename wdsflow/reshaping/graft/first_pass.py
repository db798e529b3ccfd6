"""The first pass of a graft: the table and all samples are read, and each sample gets its row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wdsflow.joining.join_on import HASHES
from wdsflow.joining.ledger_keys import key_prefixes
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.thread_jobs import Begin
from wdsflow.table_files.errors import TableError

from .graft_errors import ContradictedJoin, no_match, refuse_ambiguous
from .graft_job import GraftJob
from .graft_options import GraftOptions
from .join_samples import SampleJoin
from .join_values import JoinValues, digits_of
from .look_shard import LookJob, LookRequest, ShardLook, look_at
from .matches import Matches


class FirstPass:
    """The first pass: the table, the join values of samples, and their rows.

    Args:
        options: the request.
        folder: of the outputs.
        work: the folder for the join, and for notes on each shard.
        urls: the shards.
        begin: for a display of progress.

    Attributes:
        identity: of the table.
        matches: of samples and rows.
        jobs: of the second pass. All are known after ``joined``.

    Raises NoColumn if the table lacks a column.
    """

    def __init__(
        self,
        options: GraftOptions,
        folder: Path,
        work: Path,
        urls: Sequence[Shard],
        begin: Begin | None,
    ) -> None:
        self._options = options
        self._work = work
        self._begin = begin
        self._targets = [folder / name for name in output_names(urls)]
        self._columns, self._checked = options.columns()
        prefixes = [""] * len(urls)
        if options.on.kind == "key":
            prefixes = key_prefixes(options.table, urls)
        self._shards: list[LookJob] = []
        for number, url in enumerate(urls):
            files = work / str(number)
            self._shards.append(LookJob(url, files, prefixes[number], options.allow_pipe))
        self.identity: list[object] = []
        self.matches = Matches()
        self.jobs: list[GraftJob] = []

    @contextmanager
    def joined(self) -> Iterator[SampleJoin]:
        """Read the table, look at all shards, and assign rows to samples.

        Raises NoMatch, AmbiguousJoin, ContradictedJoin, TableError, OSError.
        """
        options = self._options
        self.identity = options.table.identity()
        self._work.mkdir(parents=True, exist_ok=True)
        with SampleJoin(self._work, options.on, self._columns, self._checked) as join:
            join.table.read(options.table)
            if options.table.identity() != self.identity:
                raise TableError("the table changed while it was read")
            looks = self._look(join)
            self._assign(join, looks)
            self.jobs = [self._job(number, look) for number, look in enumerate(looks)]
            yield join

    def _job(self, number: int, look: ShardLook) -> GraftJob:
        return GraftJob(
            self._shards[number],
            look,
            self._targets[number],
            self._options.fields,
            self._columns,
            self._options.drop_unmatched,
            self.matches.digests[number],
        )

    def _look(self, join: SampleJoin) -> list[ShardLook]:
        """Look at all shards, note the samples of each, and add them to the join."""
        options = self._options
        fields = tuple(dict.fromkeys(field.field for field in options.fields))
        digits = digits_of(join.table.values_of_rows()) if options.on.kind in HASHES else 32
        request = LookRequest(options.on, fields, self._checked, digits)
        numbers = {job.files: number for number, job in enumerate(self._shards)}
        looks: dict[Path, ShardLook] = {}

        def note(job: LookJob, look: ShardLook) -> None:
            looks[job.files] = look
            if not look.is_unread:
                join.add_samples(numbers[job.files], JoinValues.read(job.files))

        run_on_shards(
            self._shards, partial(look_at, request=request), note, options.jobs, self._begin
        )
        return [looks[job.files] for job in self._shards]

    def _assign(self, join: SampleJoin, looks: Sequence[ShardLook]) -> None:
        """Assign rows to samples, unless the join does not match."""
        options = self._options
        matches = self.matches = join.match_rows()
        contradiction = join.contradiction()
        if contradiction:
            raise ContradictedJoin(contradiction)
        if options.ambiguous == "refuse":
            refuse_ambiguous(matches, str(options.on))
        files: list[Path | None] = []
        for job, look in zip(self._shards, looks, strict=True):
            files.append(None if look.is_unread else job.files)
        join.assign(matches, files, options.ambiguous)
        if not matches.matched and not all(look.is_unread for look in looks):
            samples = sum(look.samples for look in looks)
            raise no_match(samples, join, matches, options.on, options.table_name)
