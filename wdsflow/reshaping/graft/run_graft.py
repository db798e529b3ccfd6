"""Add or replace fields of samples by a join with a table; images are not changed."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.refusals import output_paths
from wdsflow.records.report import run_outputs
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.records.working_folder import working_folder
from wdsflow.reshaping.options import Ambiguous, GraftRequest
from wdsflow.shards.atomic import scratch_folder, writing
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.thread_jobs import Begin
from wdsflow.shards.urls import expand_existing
from wdsflow.table_files.errors import NoColumn, TableError
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .graft_errors import ContradictedJoin, no_match, refuse_ambiguous
from .graft_report import GraftReport, ShardGraft
from .graft_shard import GraftJob, graft_shard
from .join_on import HASHES, FieldToSet, JoinOn, parse_on, parse_set
from .join_samples import Matches, SampleJoin
from .join_values import CHECKED, CHECKED_IMAGE, JoinValues, digits_of
from .look_shard import LookJob, LookRequest, ShardLook, look_at
from .table_rows import TableFiles, find_table

# Version of the result of a graft.
_CODE = 1
# Folder of the join and of notes on each shard during a run.
_WORK = "graft"
_UNMATCHED = "graft-unmatched.jsonl"
_REASONS = {"table": "the table changed", "decided": "other rows match its samples now"}
# Unmatched rows.
_SHOWN = 5


@dataclass(frozen=True)
class GraftOptions:
    """The request."""

    table: TableFiles
    # As given.
    named: str
    on: JoinOn
    fields: tuple[FieldToSet, ...]
    ambiguous: Ambiguous = "refuse"
    drop_unmatched: bool = False
    jobs: int = 1
    allow_pipe: bool = False

    def flags(self) -> dict[str, object]:
        """Return the options that determine the outcome, as on the command line."""
        return {
            "--from": self.named,
            "--on": str(self.on),
            "--set": list(map(str, self.fields)),
            "--ambiguous": self.ambiguous,
            "--drop-unmatched": self.drop_unmatched,
        }


@keywords(GraftRequest)
def graft_shards(
    urls: str | Iterable[str], out: str | os.PathLike[str], request: GraftRequest
) -> GraftReport:
    """Write each shard into the folder ``out`` with fields from a table, with ``sizes.json`` and ``__len__`` next to them.

    All other members are copied byte for byte; the inputs never change. Samples without a row are
    not changed. Memory does not grow with the table. The same call resumes an interrupted run.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to, such as ``s3://bucket/prefix``.
        request: each is a keyword argument.

    Raises:
        NoMatch, AmbiguousJoin: no sample has a row, or samples are ambiguous; nothing is written.
        ContradictedJoin: samples joined on the key have another url or sha256 than their rows; nothing is written.
        TableError, ValueError: the table cannot be read or lacks a column; arguments are invalid, or urls match nothing.
        OtherOptions: ``out`` holds shards that were grafted with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no graft wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    with working_folder(out) as folder:
        return _into(folder, urls, request).naming(out, folder)


def _into(folder: Path, urls: str | Iterable[str], request: GraftRequest) -> GraftReport:
    if request.jobs < 1:
        raise ValueError("jobs must be at least 1")
    asked = options_of(request)
    found, restart = expand_existing(urls, allow_pipe=request.allow_pipe), request.restart
    names = [
        path.name
        for path in output_paths(
            found, folder, *[Shard.file(str(path)) for path in asked.table.files]
        )
    ]
    with OutputRecord(folder, "graft", "grafted", ShardGraft, _REASONS) as record:
        if not restart:
            record.refuse_other(asked.flags())
        record.refuse_company()
        ready = partial(record.begin, asked.flags(), names, inputs=found, restart=restart)
        return _graft(GraftRun(asked, folder, found, request.begin), record, ready)


def options_of(request: GraftRequest) -> GraftOptions:
    """Return the options of a run. Raises ValueError, TableError."""
    table = os.fspath(request.table)
    files = find_table(table)
    on, fields = join_of(files, request.on), tuple(parse_set(request.fields))
    how = request.ambiguous, request.drop_unmatched, request.jobs, request.allow_pipe
    return GraftOptions(files, table, on, fields, *how)


class GraftRun:
    """The first pass of a run: the table, the join values of samples, and their rows.

    Args:
        asked: the request.
        folder: for the join, and for outputs.
        urls: the shards.
        begin: for a display of progress.

    Attributes:
        work: the folder for notes on each shard.
        identity, looks, matches, jobs: those of the table; of each shard; of samples and rows; and jobs to do,
            known after ``joined``.

    Raises NoColumn if the table lacks a column.
    """

    def __init__(
        self, asked: GraftOptions, folder: Path, urls: Sequence[Shard], begin: Begin | None
    ) -> None:
        self.asked, self.begin = asked, begin
        self.work, self.listed = folder / INSIDE / _WORK, folder / INSIDE / _UNMATCHED
        self.matches, self.identity = Matches(), list[object]()
        self.looks: list[ShardLook] = []
        self.jobs: list[GraftJob] = []
        self._targets = [folder / name for name in output_names(urls)]
        self._columns, self._checked = _columns(asked)
        scopes = asked.table.scope(urls) if asked.on.kind == "key" else None
        each = zip(urls, scopes or [""] * len(urls), strict=True)
        self._shards = [
            LookJob(url, self.work / str(number), scope, asked.allow_pipe)
            for number, (url, scope) in enumerate(each)
        ]

    @contextmanager
    def joined(self) -> Iterator[SampleJoin]:
        """Read the table, look at all shards, and assign rows to samples.

        Raises NoMatch, AmbiguousJoin, ContradictedJoin, TableError, OSError.
        """
        table, asked = self.asked.table, self.asked
        self.identity = table.identity()
        self.work.mkdir(parents=True, exist_ok=True)
        with SampleJoin(self.work, asked.on, self._columns, self._checked) as join:
            join.read(table)
            if table.identity() != self.identity:
                raise TableError("the table changed while it was read")
            self.looks = self._look(join)
            self._decide(join, self.looks)
            each = zip(self._shards, self.looks, self._targets, self.matches.digests, strict=True)
            self.jobs = [
                GraftJob(
                    shard, look, target, asked.fields, self._columns, asked.drop_unmatched, digest
                )
                for shard, look, target, digest in each
            ]
            yield join

    def _look(self, join: SampleJoin) -> list[ShardLook]:
        """Look at all shards, note the samples of each, and add them to the join."""
        asked = self.asked
        touched = tuple(dict.fromkeys(each.field for each in asked.fields))
        digits = digits_of(join.values_of_rows()) if asked.on.kind in HASHES else 32
        look = partial(look_at, request=LookRequest(asked.on, touched, self._checked, digits))
        numbers = {job.files: number for number, job in enumerate(self._shards)}
        found: dict[Path, ShardLook] = {}

        def note(job: LookJob, seen: ShardLook) -> None:
            found[job.files] = seen
            if not seen.unread:
                join.add_samples(numbers[job.files], JoinValues.read(job.files))

        run_on_shards(self._shards, look, note, asked.jobs, self.begin)
        return [found[job.files] for job in self._shards]

    def _decide(self, join: SampleJoin, looks: Sequence[ShardLook]) -> None:
        asked = self.asked
        matches = self.matches = join.join()
        if contradiction := join.contradiction():
            raise ContradictedJoin(contradiction)
        if asked.ambiguous == "refuse":
            refuse_ambiguous(matches, str(asked.on))
        there = [
            None if look.unread else job.files
            for job, look in zip(self._shards, looks, strict=True)
        ]
        join.give(matches, there, asked.ambiguous)
        if not matches.matched and not all(look.unread for look in looks):
            raise no_match(
                sum(look.samples for look in looks), join, matches, asked.on, asked.named
            )


def _graft(
    run: GraftRun, record: OutputRecord[ShardGraft], ready: Callable[[], object]
) -> GraftReport:
    """Graft into a folder that is locked; ``ready`` is called before anything is written. Raises as ``graft_shards``."""
    asked = run.asked
    with scratch_folder(run.work):
        with run.joined() as join:
            ready()
            unmatched = _list_unmatched(run, join)
        matches = run.matches
        report = GraftReport(
            matches, list(map(str, asked.fields)), unmatched, str(run.listed) * bool(unmatched)
        )
        if asked.ambiguous != "refuse" and matches.by_rows + matches.by_samples:
            several, shared = (
                how_many(matches.by_rows, "sample"),
                how_many(matches.by_samples, "sample"),
            )
            report.resolved = f"--ambiguous {asked.ambiguous}: {several} with several rows, {shared} with a shared row"

        work, origin = [(record, job) for job in run.jobs], partial(_made_from, run.identity)
        report.shards = run_outputs(
            work,
            graft_shard,
            origin,
            report,
            jobs=asked.jobs,
            begin=run.begin,
            runner=run_on_shards,
        )
        record.finish()
    report.check()
    return report


def _made_from(table: object, job: GraftJob) -> dict[str, object]:
    inputs = job.look.inputs or job.shard.identity()
    return {"code": _CODE, "url": job.url, "inputs": inputs, "table": table, "decided": job.decided}


def _list_unmatched(run: GraftRun, join: SampleJoin) -> list[str]:
    """Write the rows that no sample has, a line each, and return the first of them."""
    if not run.matches.unmatched_rows:
        run.listed.unlink(missing_ok=True)
        return []
    with (
        writing(run.listed) as file,
        open(file, "w", encoding="utf-8", newline="", closefd=False) as stream,
    ):
        stream.writelines(join.unmatched_lines())
    return join.unmatched(_SHOWN)


def join_of(files: TableFiles, text: str) -> JoinOn:
    """Parse the value of the join; a ledger has its own name for the hash of images."""
    on = parse_on(text)
    if files.kind == "ledger" and on.kind == "xxh3" and "=" not in text:
        return JoinOn("xxh3", "", "image_xxh3")
    return on


def _columns(asked: GraftOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns whose values are set, and those by which keys are checked."""
    names = asked.table.columns()
    columns = tuple(dict.fromkeys(each.column for each in asked.fields))
    for column in (asked.on.column, *columns):
        if column not in names:
            raise NoColumn(asked.named, column, names, asked.table.text(asked.table.files[0]))
    if asked.on.kind != "key":
        return columns, ()
    checked = (CHECKED_IMAGE,) if asked.table.kind == "ledger" else CHECKED
    return columns, tuple(column for column in checked if column in names)
