"""Compare two sets of shards by the keys of their samples."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event

from wdsflow.filtering.ledger.ledger_row import LedgerError
from wdsflow.records.unfinished import INSIDE
from wdsflow.reshaping.options import DiffOptions, Ledger
from wdsflow.shards.samples.tar_samples import Samples, is_harmless
from wdsflow.shards.source.base import SourceError, local_path
from wdsflow.shards.source.opening import seekable
from wdsflow.shards.thread_jobs import run_in_threads
from wdsflow.shards.urls import NoShards, expand_existing
from wdsflow.text.options import keywords

from .key_records import KeyParts, KeyRecord, compare_part, ledger_records, record_of
from .set_diff import SetDiff, SideFacts

_AT_ONCE = 500  # records that a thread collects before it adds them

Urls = str | Iterable[str]


@dataclass(frozen=True)
class _Job:
    side: int
    shard: int
    url: str
    ledger: Path | None = None  # in place of the shard


@keywords(DiffOptions)
def diff_shards(before: Urls, after: Urls, options: DiffOptions) -> SetDiff:
    """Compare two sets of shards sample by sample, regardless of shard and order.

    Samples of the same key are compared, field by field, by the hash of their bytes. Memory does not grow with the sets: a
    record of about 180 bytes for each sample is written to temporary files. Compressed shards are also unpacked there
    while they are read.

    Args:
        before: shards, as for ``check``.
        after: shards to compare them with.
        options: each is a keyword argument.

    Raises:
        NoShards: a pattern matches nothing.
        LedgerError: a folder has no ledger, or one cannot be read.
        OSError: the folder for temporary files is full.
    """
    if options.jobs < 1 or options.shown < 0:
        raise ValueError("jobs must be at least 1, and shown at least 0")
    found = SetDiff(shown=options.shown)
    work: list[_Job] = []
    for side, (facts, urls) in enumerate(zip(found.sides, (before, after), strict=True)):
        facts.shards = _expanded(urls)
        work += [_Job(side, number, url) for number, url in enumerate(facts.shards)]
    work += _ledger_jobs((before, after), found.sides, options.ledgers)
    with tempfile.TemporaryDirectory(prefix="wdsflow-diff-") as folder, KeyParts(Path(folder)) as parts:
        try:
            read = partial(_read, parts, Path(folder), options.allow_pipe)
            run_in_threads(work, read, partial(_note, found), options.jobs, options.begin)
        except _Stopped as stopped:
            raise stopped.__cause__ or stopped from None
        for part in parts.parts():
            compare_part(part, found)
    for examples in (found.changed_examples, *found.only_examples):
        found.trim(examples)
    for facts in found.sides:
        facts.trouble.sort()
    found.check()
    return found


def _expanded(urls: Urls) -> list[str]:
    """Return the shards; a folder may have none, if it is one of the outputs of wdsflow."""
    given = [urls] if isinstance(urls, str) else list(urls)
    try:
        return expand_existing(given)
    except NoShards:
        folders = [path for path in map(local_path, given) if path and (Path(path) / INSIDE).is_dir()]
        if len(folders) == len(given):  # everything was excluded
            return []
        raise


def _ledger_jobs(
    sets: tuple[Urls, Urls], sides: Sequence[SideFacts], ledgers: tuple[Ledger, Ledger] | None
) -> Iterator[_Job]:
    if ledgers is None:
        folders = [_own_ledger(urls, side) for urls, side in zip(sets, sides, strict=True)]
        if None in folders:
            return
    else:
        folders = [None if each is None else Path(each) for each in ledgers]
        if None in folders:
            raise ValueError("scores are compared with scores: give ledgers of both sets, or of none")
    for side, folder in enumerate(folders):
        assert folder is not None
        inside = folder / INSIDE / "ledger"
        files = sorted((inside if inside.is_dir() else folder).glob("*.parquet"))
        if not files:
            raise LedgerError(f"{folder} has no ledger: name an output folder of wdsflow measure or wdsflow filter")
        yield from (_Job(side, number, str(path), path) for number, path in enumerate(files))


def _own_ledger(urls: Urls, side: SideFacts) -> Path | None:
    """Return the folder of shards, if it has ledgers."""
    given = [urls] if isinstance(urls, str) else list(urls)
    places = (os.path.dirname(url) for url in side.shards) if side.shards else given
    folders = {local_path(place or ".") for place in places}
    folder = next(iter(folders)) if len(folders) == 1 else None
    return Path(folder) if folder is not None and any((Path(folder) / INSIDE / "ledger").glob("*.parquet")) else None


def _read(parts: KeyParts, folder: Path, allow_pipe: bool, job: _Job, stop: Event) -> SideFacts:
    """Read a shard or a ledger, and add its records. Raises OSError if ``folder`` cannot take them, or an unpacked shard."""
    done = SideFacts()
    if job.ledger is not None:
        records = ledger_records(job.ledger, job.side, job.shard)
        while some := list(islice(records, _AT_ONCE)):
            done.rows += len(some)
            parts.add(some)
        return done
    held: list[KeyRecord] = []
    try:
        # Unpacked, because members of a sample are read after the sample is complete.
        with seekable(job.url, folder, allow_pipe=allow_pipe, here=False) as (source, damage):
            done.trouble += [damage] if damage else []
            samples = Samples(source, contents=True)
            for sample in samples:
                record = record_of(sample, samples, job.side, job.shard)
                done.samples += 1
                for each in record.fields:
                    done.fields[each.name] += 1
                    done.bytes[each.name] += each.size
                held.append(record)
                if len(held) == _AT_ONCE:
                    _add(parts, held, stop)
            done.trouble += [text for text in samples.damage if not is_harmless(text)]
            done.left_out += samples.left_out
    except _Stopped:
        raise
    except OSError as error:  # of the shard: those of the parts are _Stopped
        if error.filename is not None and Path(error.filename).is_relative_to(folder):
            raise
        done.trouble.append(error.detail if isinstance(error, SourceError) else str(error))
    _add(parts, held, stop)
    done.trouble = [f"{job.url}: {text}" for text in done.trouble]
    return done


class _Stopped(Exception):
    """The records cannot be written, or another thread failed; the cause has the reason."""


def _add(parts: KeyParts, held: list[KeyRecord], stop: Event) -> None:
    try:
        if stop.is_set():
            raise InterruptedError("another shard failed")
        parts.add(held)
    except OSError as error:
        raise _Stopped from error
    held.clear()


def _note(found: SetDiff, job: _Job, done: SideFacts) -> None:
    side = found.sides[job.side]
    side.samples += done.samples
    side.rows += done.rows
    side.fields += done.fields
    side.bytes.update(done.bytes)
    side.left_out += done.left_out
    side.trouble += done.trouble
