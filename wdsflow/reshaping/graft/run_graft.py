"""Add or replace fields of samples by a join with a table; images stay as they are."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from wdsflow.records.output_record import OutputRecord
from wdsflow.records.refusals import refuse_inputs
from wdsflow.records.report import run_outputs
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.records.unfinished import INSIDE
from wdsflow.shards.atomic import scratch_folder, writing
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import SourceError, local_folder
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .graft_options import Ambiguous, GraftWishes
from .graft_report import GraftReport, ShardGraft
from .graft_shard import GraftJob, graft_shard
from .grafted_sample import GraftedFields
from .join_on import HASHES, FieldToSet, JoinOn, parse_on, parse_set
from .join_samples import Matches, SampleJoin
from .look_shard import CHECKED, CHECKED_IMAGE, LookJob, ShardLook, Wanted, digits_of, joins_file, look_at
from .noted_samples import JoinValues
from .refused_joins import AmbiguousJoin, ContradictedJoin, NoMatch
from .table_errors import NoColumn, TableError
from .table_rows import TableFiles, find_table

_CODE = 1  # version of the result of a graft
_WORK = "graft"  # folder of the join and of what is noted of each shard while a run works
_UNMATCHED = "graft-unmatched.jsonl"
_REASONS = {
    "code": "another wdsflow wrote it",
    "url": "its output was made from {}",
    "inputs": "the input changed",
    "table": "the table changed",
    "decided": "other rows match its samples now",
}
_SHOWN = 5  # unmatched rows


@dataclass(frozen=True)
class GraftOptions:
    """What is asked for."""

    table: TableFiles
    named: str  # as it was given
    on: JoinOn
    fields: tuple[FieldToSet, ...]
    ambiguous: Ambiguous = "refuse"
    drop_unmatched: bool = False
    jobs: int = 1
    allow_pipe: bool = False

    def flags(self) -> dict[str, object]:
        """Return what decides the outcome, as the command line spells it."""
        return {
            "--from": self.named,
            "--on": str(self.on),
            "--set": list(map(str, self.fields)),
            "--ambiguous": self.ambiguous,
            "--drop-unmatched": self.drop_unmatched,
        }


@keywords(GraftWishes)
def graft_shards(urls: str | Iterable[str], out: str | os.PathLike[str], wishes: GraftWishes) -> GraftReport:
    """Write each shard into the folder ``out`` with fields from a table, with ``sizes.json`` and ``__len__`` next to them.

    All other members are copied byte for byte; the inputs never change. Samples without a row stay as they are. The
    table is not held in memory. The same call resumes an interrupted run.

    Args:
        urls: shards, as for ``check``.
        out: a folder; it is created if it does not exist.
        wishes: each is a keyword argument.

    Raises:
        NoMatch: no sample has a row; nothing is written.
        AmbiguousJoin: samples are ambiguous; nothing is written.
        ContradictedJoin: samples joined on the key have another url or sha256 than their rows; nothing is written.
        TableError: the table cannot be read, or lacks a column.
        ValueError: arguments are invalid, or urls match nothing.
        OtherOptions: ``out`` holds shards that were grafted with other options.
        Busy: another run works in ``out``.
        FileExistsError: an output exists that no graft wrote, or would replace an input.
        OSError: an output cannot be written. Finished shards are kept, partial ones removed.
    """
    if wishes.jobs < 1:
        raise ValueError("jobs must be at least 1")
    asked = options_of(wishes)
    found = expand_existing(urls)
    return _graft(asked, found, local_folder(out), wishes.begin, force=wishes.force, restart=wishes.restart)


def options_of(wishes: GraftWishes) -> GraftOptions:
    """Return the options of a run. Raises ValueError, TableError."""
    table = os.fspath(wishes.table)
    files = find_table(table)
    on, fields = join_of(files, wishes.on), tuple(parse_set(wishes.fields))
    how = wishes.ambiguous, wishes.drop_unmatched, wishes.jobs, wishes.allow_pipe
    return GraftOptions(files, table, on, fields, *how)


def _graft(
    asked: GraftOptions, found: list[str], folder: Path, begin: Begin | None, *, force: bool, restart: bool
) -> GraftReport:
    """Graft into a folder that is locked; a refused join leaves it as it was."""
    targets = [folder / name for name in output_names(found)]
    refuse_inputs([*found, *map(str, asked.table.files)], targets)
    with OutputRecord(folder, "graft", "grafted", ShardGraft, _REASONS) as record:
        if not restart and not force:
            record.refuse_other(asked.flags())
        if not force:
            record.refuse_company()
        names = [target.name for target in targets]
        ready = partial(record.begin, asked.flags(), names, inputs=found, force=force, restart=restart)
        return GraftRun(asked, folder, found, targets, record, begin).graft(ready, again=force)


class GraftRun:
    """One run: the table, the first pass, the decision, the second pass."""

    def __init__(
        self,
        asked: GraftOptions,
        folder: Path,
        urls: Sequence[str],
        targets: Sequence[Path],
        record: OutputRecord[ShardGraft] | None = None,
        begin: Begin | None = None,
        shard: Callable[..., LookJob] = LookJob,
    ) -> None:
        self._asked, self._urls, self._targets = asked, urls, targets
        self._record, self._begin, self._shard = record, begin, shard  # without a record nothing can be written
        self._runner = run_on_shards if shard is LookJob else run_in_threads  # others cannot be sent to processes
        self._work = folder / INSIDE / _WORK
        self._listed = folder / INSIDE / _UNMATCHED
        self.columns, self._checked = _columns(asked)
        self._identity: list[object] = []

    def graft(self, ready: Callable[[], object], *, again: bool) -> GraftReport:
        """Do all of it; ``ready`` is called before anything is written. Raises as ``graft_shards``."""
        with scratch_folder(self._work), ExitStack() as stack:
            join = stack.enter_context(self.table())
            looks = self.look(join)
            matches = self.decide(join, looks)
            ready()
            unmatched = self._list(join, matches)
            stack.close()
            report = self._write(looks, matches, again=again)
        report.unmatched = unmatched
        report.listed = str(self._listed) if report.unmatched else ""
        report.check()
        return report

    def table(self) -> SampleJoin:
        """Read the table. Raises TableError, OSError."""
        asked = self._asked
        self._identity = _identity(asked.table)
        self._work.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            join = stack.enter_context(SampleJoin(self._work, asked.on, self.columns, self._checked))
            join.read(asked.table)
            if _identity(asked.table) != self._identity:
                raise TableError("the table changed while it was read")
            stack.pop_all()
        return join

    def look(self, join: SampleJoin) -> list[ShardLook]:
        """Look at all shards, note the samples of each, and add them to the join."""
        asked, work = self._asked, self._shards
        touched = tuple(dict.fromkeys(each.field for each in asked.fields))
        digits = digits_of(join.values_of_rows()) if asked.on.kind in HASHES else 32
        look = partial(look_at, wanted=Wanted(asked.on, touched, self._checked, digits))
        numbers = {job.place: number for number, job in enumerate(work)}
        found: dict[Path, ShardLook] = {}

        def note(job: LookJob, seen: ShardLook) -> None:
            found[job.place] = seen
            if not seen.unread:
                join.add_samples(numbers[job.place], JoinValues.read(joins_file(job.place)))

        self._runner(work, look, note, asked.jobs, self._begin)
        return [found[job.place] for job in work]

    @cached_property
    def _shards(self) -> list[LookJob]:
        """The shards; each place is where the rows of one are noted."""
        scopes = self._asked.table.scope(self._urls) if self._asked.on.kind == "key" else None
        each = zip(self._urls, self._targets, scopes or [""] * len(self._urls), strict=True)
        return [
            self._shard(url, self._work / target.name, scope, self._asked.allow_pipe) for url, target, scope in each
        ]

    def jobs(self, looks: Sequence[ShardLook], matches: Matches) -> list[GraftJob]:
        """Return what is to be done with each shard."""
        each = zip(self._shards, looks, self._targets, matches.digests, strict=True)
        drops = self._asked.drop_unmatched
        return [GraftJob(shard, look, target, drops, digest) for shard, look, target, digest in each]

    def decide(self, join: SampleJoin, looks: Sequence[ShardLook]) -> Matches:
        """Decide which samples get which rows. Raises NoMatch, AmbiguousJoin, ContradictedJoin."""
        asked = self._asked
        matches = join.join()
        ContradictedJoin.check(join.contradiction())
        if asked.ambiguous == "refuse":
            AmbiguousJoin.check(matches, str(asked.on))
        there = [None if look.unread else job.place for job, look in zip(self._shards, looks, strict=True)]
        join.give(matches, there, asked.ambiguous)
        if not matches.matched and not all(look.unread for look in looks):
            NoMatch.of(sum(look.samples for look in looks), join, matches, asked.on, asked.named)
        return matches

    def _write(self, looks: Sequence[ShardLook], matches: Matches, *, again: bool) -> GraftReport:
        asked, record = self._asked, self._record
        assert record is not None
        work = self.jobs(looks, matches)
        report = GraftReport([], matches, list(map(str, asked.fields)))
        if asked.ambiguous != "refuse" and matches.by_rows + matches.by_samples:
            several, shared = how_many(matches.by_rows, "sample"), how_many(matches.by_samples, "sample")
            report.resolved = f"--ambiguous {asked.ambiguous}: {several} with several rows, {shared} with a shared row"
        report.shards = run_outputs(
            [(record, job) for job in work],
            partial(graft_shard, fields=GraftedFields(asked.fields, self.columns)),
            self._made_from,
            report,
            jobs=asked.jobs,
            begin=self._begin,
            again=again,
            runner=run_on_shards,
        )
        record.finish()
        return report

    def _made_from(self, job: GraftJob, _: ShardGraft | None) -> dict[str, object]:
        """Return what decides the output of a shard."""
        inputs = job.look.inputs or job.shard.identity()
        return {"code": _CODE, "url": job.url, "inputs": inputs, "table": self._identity, "decided": job.decided}

    def _list(self, join: SampleJoin, matches: Matches) -> list[str]:
        """Write the rows that no sample has, a line each, and return the first of them."""
        if not matches.unmatched_rows:
            self._listed.unlink(missing_ok=True)
            return []
        with writing(self._listed) as file, open(file, "w", encoding="utf-8", newline="", closefd=False) as stream:
            stream.writelines(join.unmatched_lines())
        return join.unmatched(_SHOWN)


def _identity(table: TableFiles) -> list[object]:
    try:
        found: list[object] = json.loads(json.dumps(table.identity()))
    except SourceError as error:
        raise TableError(f"the table cannot be read: {error}") from None
    return found


def join_of(files: TableFiles, text: str) -> JoinOn:
    """Parse what is joined on; a ledger has a name of its own for the hash of images."""
    on = parse_on(text)
    if files.kind == "ledger" and on.kind == "xxh3" and "=" not in text:
        return JoinOn("xxh3", "", "image_xxh3")
    return on


def _columns(asked: GraftOptions) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns whose values are set, and those by which keys are checked."""
    names = asked.table.columns()
    columns = list(dict.fromkeys(each.column for each in asked.fields))
    for column in (asked.on.column, *columns):
        if column not in names:
            raise NoColumn(asked.named, column, names, asked.table.text(asked.table.files[0]))
    if asked.on.kind != "key":
        return columns, ()
    checked = (CHECKED_IMAGE,) if asked.table.kind == "ledger" else CHECKED
    return columns, tuple(column for column in checked if column in names)
