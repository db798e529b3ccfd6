"""The folder of a run: its lock, and which shards are done."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.filtering.jsonl.jsonl_names import is_lines
from wdsflow.filtering.ledger.ledger_metadata import read_about
from wdsflow.filtering.recipe.recipe_identity import canonical, differences
from wdsflow.shards.atomic import remove_stale, write_file
from wdsflow.shards.folder_lock import Lock
from wdsflow.shards.output_record import need_folder, refuse_inputs
from wdsflow.shards.shard_identity import fingerprint, input_identity
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.unfinished import begin_shards, forget_shards, undo_begin

from .finish_run import remove_between
from .layout import Layout
from .manifest import read_manifests
from .other_run import Differs, differ, grows, has_fewer, scores_of
from .output_numbers import finder
from .output_targets import makes_tars, refuse
from .shard_record import ShardRecord


@contextlib.contextmanager
def held(layout: Layout, index: int, count: int) -> Iterator[list[int]]:
    """Lock a folder for one run, or for one slice of a run; yield the descriptors that workers inherit.

    Raises Busy; FileExistsError if something else is in place of the folder.
    """
    for folder in filter(None, (layout.folder, layout.quarantine_folder)):
        need_folder(folder)
    layout.inside.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        locks = [stack.enter_context(Lock(layout.lock(), shared=count > 1))]
        if count > 1:
            locks.append(stack.enter_context(Lock(layout.lock(index, count))))
        await_workers(layout, index, count)
        yield [lock.fd for lock in locks]


def await_workers(layout: Layout, index: int, count: int) -> None:
    """Wait until no worker of a run, or of a slice, is left on any machine. Raises Busy."""
    paths = layout.workers_locks() if count == 1 else [layout.workers_lock(index, count)]
    for path in paths:
        if path.exists():
            Lock(path, patience=60).close()


def prepare(layout: Layout, asked: Mapping[str, Any], *, restart: bool, alone: bool = True, tars: bool = True) -> None:
    """Prepare a folder for a run, or for the rest of one.

    ``asked`` is the request; "names" are its outputs and "urls" its shards. ``alone``: no other slice of the run works
    there. A run that finished no shard is replaced by any other. ``tars``: it writes shards. Raises Differs if the folder holds a run that does
    something else, FileExistsError if files are in the way that no run wrote.
    """
    with Lock(layout.inside / "lock-prepare", patience=60):  # slices may start at the same time
        before = _read(layout.run_file)
        other = before is not None and differ(before, json.loads(canonical(asked)))
        if before is not None and (restart or (other and alone and not _begun(layout, before))):
            was = _as_it_was(layout, before)
            refuse_inputs(asked["urls"], _outputs(was, before))
            _clear(was, before)
            before = None
        if before is None:
            refuse(layout, asked)
            write_file(layout.run_file, json.dumps(asked, indent=1, sort_keys=True).encode() + b"\n")
        elif other and _can_grow(before, asked, alone=alone):
            write_file(layout.run_file, json.dumps(asked, indent=1, sort_keys=True).encode() + b"\n")
        elif other:
            raise Differs(layout.folder, before, json.loads(canonical(asked)))
        if tars:
            begin_shards(layout.folder, str(asked["kind"]), len(asked["names"]))
    for folder in layout.folders():
        folder.mkdir(parents=True, exist_ok=True)
    sweep(layout)


def _can_grow(before: Mapping[str, Any], asked: Mapping[str, Any], *, alone: bool) -> bool:
    """Return whether ledgers get more scores; another slice may be at work on those of the earlier run."""
    asked = json.loads(canonical(asked))
    return grows(before, asked) and (alone or set(scores_of(before)) <= set(scores_of(asked)))


def begun_scores(layout: Layout) -> tuple[str, ...]:
    """Return the scores that ledgers of a run of ``score`` have, in its order. Raises LedgerError."""
    run = _read(layout.run_file) or {}
    if run.get("kind") != "score":
        return ()
    found = set[str]()
    for each in (layout, layout.scored):
        one_of_each = {record.recipe: record.name for record in read_manifests(each.manifests()).values()}
        for name in one_of_each.values():
            if each.ledger(name).is_file():
                found.update(scores_of(read_about(each.ledger(name))))
    return tuple(score for score in scores_of(run) if score in found)


def _begun(layout: Layout, run: Mapping[str, Any]) -> bool:
    """Return whether a run left any results, whatever its manifest looks like."""
    manifests = (*layout.manifests(), *layout.scored.manifests())
    ledgers = (layout.scored.inside / "ledger").glob("*.parquet")
    return any(path.stat().st_size for path in manifests) or any(
        path.exists() for path in (*_outputs(_as_it_was(layout, run), run), *ledgers)
    )


def abandon(layout: Layout, asked: Mapping[str, Any]) -> bool:
    """Undo ``prepare`` if no shard was finished since, and tell whether that is so."""
    if _begun(layout, asked):
        return False
    _clear(layout, asked)
    return True


def sweep(layout: Layout) -> None:
    """Remove leftovers of killed processes."""
    for folder in layout.folders():
        with contextlib.suppress(OSError):
            remove_stale(folder)
    with contextlib.suppress(OSError):
        for path in layout.spool.iterdir():
            if path.is_dir():  # of a comparison: only one run at a time has any, and it holds the lock
                shutil.rmtree(path, ignore_errors=True)


class Finished(NamedTuple):
    """The shards of a run that need not be processed, or not as a whole."""

    done: dict[str, ShardRecord]
    fewer: list[str]  # names of shards whose ledgers have some of the scores
    changed: list[str]  # other shards that were finished once, and why they do not count as done


def finished(
    layout: Layout, shards: Sequence[tuple[int, str, str]], identity: str, asked: Mapping[str, Any]
) -> Finished:
    """Return which of the shards (number, url, name) are done. ``asked``: the request."""
    known = read_manifests(layout.manifests(), identity)
    lies_at, asked = finder(layout), json.loads(canonical(asked))
    found = Finished({}, [], [])
    for number, url, name in shards:
        record = known.get(name)
        if record is None:
            continue
        reason = _stale(layout, record, number, url, identity, lies_at)
        if record.recipe != identity and asked.get("kind") == "score":
            reason = _stale(layout, record, number, url, record.recipe, lies_at) or reason
            if reason == _AGAIN and has_fewer(read_about(layout.ledger(name)), asked):
                found.fewer.append(name)
                continue
        if reason:
            found.changed.append(f"{url}: {reason}")
        else:
            found.done[name] = record
    return found


_AGAIN = "its scores were computed again"


def _stale(
    layout: Layout, record: ShardRecord, number: int, url: str, identity: str, lies_at: Callable[[str], Path]
) -> str:
    if (record.shard, record.url) != (number, url):
        return f"its output was made from {record.url}"
    if record.recipe != identity:
        return _AGAIN  # a changed recipe was already refused
    try:
        now = input_identity(url)
    except SourceError as error:
        return f"it cannot be read now: {error}"
    if now != record.input:
        return f"the input changed ({'; '.join(differences(record.input, now))})"
    files = [(lies_at(record.name), record.output), (layout.quarantine(record.name), record.quarantine)]
    for name, part in record.parts.items():
        files.append((layout.folder / name, {mark: value for mark, value in part.items() if mark != "samples"}))
    for path, expected in [*files, (layout.ledger(record.name), record.ledger)]:
        if expected is None:
            continue
        try:
            found = fingerprint(str(path))
        except OSError:
            return f"{path} is missing"
        if found != expected:
            return f"{path} was changed since it was written"
    return next((f"{path} is missing" for path in _beside(layout, record) if not path.exists()), "")


def _beside(layout: Layout, record: ShardRecord) -> Iterator[Path]:
    """Yield the small files that are next to what a record has the identity of."""
    if record.quarantine is not None:
        yield layout.reasons(record.name)
    if is_lines(record.name) and record.output is not None:
        yield layout.stats(record.name)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), list) for name in ("names", "urls")):
        raise FileExistsError(
            f"{path} is damaged, and the files of that run are unknown: remove {path.parent.parent}, or choose another folder with -o"
        )
    return found


def _as_it_was(layout: Layout, before: Mapping[str, Any]) -> Layout:
    """Return the layout of an earlier run: other names of its outputs, another folder for its quarantine."""
    aside, recipe = before.get("quarantine"), before.get("recipe")
    return replace(
        layout,
        quarantine_folder=layout.folder / aside if isinstance(aside, str) else None,
        dense=isinstance(recipe, dict) and recipe.get("numbering") == "dense",
    )


def _outputs(layout: Layout, before: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files that an earlier run may have written for its shards."""
    lies_at = finder(layout)
    for name in before.get("names", ()):
        if not isinstance(name, str) or "/" in name:
            continue
        yield from (lies_at(name), layout.ledger(name), layout.quarantine(name), layout.reasons(name))
        if is_lines(name):
            yield layout.stats(name)
            yield from layout.parts(name) if makes_tars(before) else ()


def _clear(layout: Layout, before: Mapping[str, Any]) -> None:
    """Remove what a run wrote, and nothing else."""
    begun = _begun(layout, before)
    for path in _outputs(layout, before):
        path.unlink(missing_ok=True)
    for path in (*layout.manifests(), layout.numbering):
        path.unlink(missing_ok=True)
    shutil.rmtree(layout.scored.folder, ignore_errors=True)  # nobody works in it but who works around it
    sweep(replace(layout, dense=True))
    remove_between(layout)
    with contextlib.suppress(OSError):  # missing, or not empty
        (layout.inside / "ledger").rmdir()
    (forget_shards if begun else undo_begin)(layout.folder)
    layout.run_file.unlink(missing_ok=True)  # last: without it nobody would know what is left to remove
