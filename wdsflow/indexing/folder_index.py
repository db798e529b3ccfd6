"""Index the shards of one folder.

Only shards that changed are read. Then the files about each shard, and about all of them, are
written.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Event

from wdsflow.records.unfinished import INSIDE
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.thread_jobs import Begin, run_in_threads

from .count_files import render_counts
from .energon_files import NV_META, NV_SQLITE, EnergonFiles, tar_index
from .index_record import IndexLine, IndexRecord
from .sample_rows import SampleRows
from .shard_pass import ShardContents, ShardFacts, pass_over

# Version of the result of a pass.
_CODE = 4


@dataclass(frozen=True)
class _Job:
    """A shard to pass over."""

    # Without folder.
    name: str
    url: Shard
    number: int
    # Before the pass.
    identity: dict[str, object]
    # For the rows of a database; None if none is made.
    rows_folder: Path | None = None

    @property
    def made_from(self) -> dict[str, object]:
        return {"code": _CODE, "shard": self.identity}


class FolderIndex:
    """The index of the shards of one folder.

    Args:
        shards: each shard, by its name without folder.
        kinds: names of ``IndexKinds``.
        record: of the folder, begun.
        database: whether Energon gets its database of samples.
    """

    def __init__(
        self,
        shards: Mapping[str, Shard],
        kinds: Collection[str],
        record: IndexRecord,
        *,
        database: bool,
    ) -> None:
        self._shards, self._kinds, self._record = shards, kinds, record
        self._wants_database = database and "energon" in kinds
        self._report = record.report
        self._energon = EnergonFiles(record) if "energon" in kinds else None
        self._numbers = {name: number for number, name in enumerate(shards)}
        self._facts: dict[str, ShardFacts] = {}
        # Identities of the shards that are indexed.
        self._identities: dict[str, dict[str, object]] = {}

    def run(self, jobs: int, begin: Begin | None) -> None:
        """Index what is not indexed yet. Raises OSError."""
        report = self._report
        report.stale_removed += self._record.stale
        with ExitStack() as stack:
            work = self._shards_to_read(stack)
            report.resumed += len(self._shards) - len(work)
            run_in_threads(work, _pass_over, self._write_shard_files, jobs, begin)
            # Shards end in any order.
            report.refused.sort()
            report.lacking.sort()
            self._finish()
        self._remove_files_of_removed_shards()
        self._record.finish()
        report.shards += len(self._shards)
        samples = sum(facts.samples for facts in self._facts.values())
        report.samples += samples
        report.indexed += samples

    def _shards_to_read(self, stack: ExitStack) -> list[_Job]:
        """Return the shards to read.

        These are the shards that changed, or all if Energon's database must be created again.
        """
        report, record = self._report, self._record
        same_before = report.same
        all_jobs = [self._job_for(name) for name in self._shards]
        work = [job for job in all_jobs if not self._is_done(job)]
        if self._energon is None or not self._wants_database:
            return work
        if not work and record.is_made_from(NV_SQLITE, self._made_from()):
            report.same += 1
            return work
        if not record.may_replace(NV_SQLITE):
            report.kept.append(str(record.folder / NV_SQLITE))
            return work
        self._energon.open_database(stack)
        self._facts, self._identities, report.same = {}, {}, same_before
        return [replace(job, rows_folder=record.folder / NV_META) for job in all_jobs]

    def _job_for(self, name: str) -> _Job:
        url = self._shards[name]
        return _Job(name, url, self._numbers[name], _identity(url))

    def _is_done(self, job: _Job) -> bool:
        """Return whether all files of a shard exist; if so, take the facts from the record."""
        try:
            line = self._record.finished_line(_line_of(job.name), lambda: job.made_from)[0]
            facts = ShardFacts(**line.facts) if line and line.facts else None  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
        if facts is None or not job.identity or self._record.restart:
            return False
        if self._energon is not None:
            if not self._record.is_made_from(tar_index(job.name), job.identity):
                return False
            self._report.same += 1
        facts.url = job.url
        self._facts[job.name], self._identities[job.name] = facts, job.identity
        return True

    def _write_shard_files(self, job: _Job, passed: tuple[ShardFacts, ShardContents]) -> None:
        """Write the files of a shard, and record its facts."""
        facts, contents = passed
        try:
            self._add(job, facts, contents)
        finally:
            if contents.rows is not None:
                contents.rows.close()

    def _add(self, job: _Job, facts: ShardFacts, contents: ShardContents) -> None:
        report = self._report
        if facts.damage:
            report.refused.append((job.url, "; ".join(facts.damage)))
            if facts.unpack:
                report.unpack[job.url] = facts.unpack
            report.samples += facts.samples
            report.left_out += Counter({"in damaged shards": facts.samples})
            if self._energon is not None:
                self._energon.skip(job.number)
            return
        if self._energon is not None:
            self._energon.add(job.number, job.name, job.identity, facts, contents)
        self._facts[job.name], self._identities[job.name] = facts, job.identity
        self._record.add(
            IndexLine(name=_line_of(job.name), made_from=job.made_from, facts=vars(facts))
        )

    def _finish(self) -> None:
        """Write the files about all shards."""
        shards = {name: self._facts[name] for name in self._shards if name in self._facts}
        if not shards:
            return
        damaged = [name for name in self._shards if name not in shards]
        made_from = self._made_from()
        for name, data in render_counts(
            self._record.folder, shards, self._kinds, without=damaged
        ).items():
            self._record.write_file(name, data, made_from)
        if self._energon is not None:
            if not self._wants_database:
                self._energon.remove_old_database(made_from)
            self._energon.finish(shards, self._numbers, made_from)

    def _made_from(self) -> dict[str, object]:
        """Return the identity of all indexed shards."""
        text = repr(sorted(self._identities.items()))
        return {"shards": sha256(text.encode("utf-8", "surrogateescape")).hexdigest()}

    def _remove_files_of_removed_shards(self) -> None:
        """Remove the indexes of shards that no longer exist, if these files are unchanged."""
        if self._is_elsewhere():
            return
        lines = [line for line in self._record.lines if line.startswith(_line_of(""))]
        existing = {line for line in lines if self._exists(line)} | {
            _line_of(name) for name in self._shards
        }
        used = _tar_indexes(existing)
        for line in lines:
            if line not in existing:
                for name in _tar_indexes([line]) - used:
                    self._record.unlink(name)
                self._record.lines.pop(line, None)

    def _is_elsewhere(self) -> bool:
        """Return whether the index files are in another folder than a shard.

        If so, it is unknown which shards exist.
        """
        folder = os.path.realpath(self._record.folder)
        for url in self._shards.values():
            path = url.path
            if path is None or os.path.realpath(os.path.dirname(path) or ".") != folder:
                return True
        return False

    def _exists(self, line: str) -> bool:
        """Return whether a recorded shard exists, or may exist in another folder than its files."""
        found = self._record.unchanged_line(line)
        if not found or not found.facts or "url" not in found.facts:
            return True
        path = Shard.from_text(str(found.facts["url"])).path
        return (
            path is None
            or os.path.lexists(path)
            or os.path.lexists(self._record.folder / os.path.basename(line))
        )


def _pass_over(job: _Job, stop: Event) -> tuple[ShardFacts, ShardContents]:
    """Pass over a shard, without writing anything."""
    if stop.is_set():
        raise InterruptedError
    rows = None if job.rows_folder is None else SampleRows(job.rows_folder)
    try:
        facts, contents = pass_over(job.url, rows)
    except BaseException:
        if rows is not None:
            rows.close()
        raise
    if not facts.damage and _identity(job.url) != job.identity:
        facts.damage = ["it changed while it was read"]
    return facts, contents


def _identity(url: Shard) -> dict[str, object]:
    """Return what changes with the shard; nothing if it cannot be read."""
    try:
        return input_identity(url)
    except SourceError:
        return {}


def _line_of(name: str) -> str:
    """Return the name of a shard's line in the record; no file has that name."""
    return f"{INSIDE}/index/{name}"


def _tar_indexes(lines: Iterable[str]) -> set[str]:
    """Return the names of the indexes of shards, which are named by their lines in the record."""
    return {tar_index(os.path.basename(line)) for line in lines}
