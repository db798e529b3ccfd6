"""The message when training waits for batches that never come."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from wdsflow.scan.caption_names import add_json_names
from wdsflow.scan.content.text_content import decode_json
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.samples.grouping import group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk
from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, FeedStopped
from wdsflow.training.sample_tasks import HangingShard
from wdsflow.training.stalls.field_fixes import inspect_command
from wdsflow.training.stalls.hanging import BusyDecoder, hanging_fixes, hanging_lines

from .field_fixes import (
    argument_name,
    caption_fixes,
    image_fixes,
    json_names_problem,
    requested_captions,
    rerun_command,
)
from .loss_tally import MISSING, NO_TAR, UNREADABLE, WRONG_CHECKSUM, Damage, LossReason, LossTally

_PEEK_SECONDS = 1.5
_PEEK_JSONS = 100
# Bytes of one json.
_LARGEST_JSON = 1 << 20
# Reasons, sets of fields and damaged shards that are shown.
_MOST_SHOWN = 4
# Kinds of damage; all others are "Damaged".
_DAMAGE = {MISSING: "Missing", UNREADABLE: "Cannot be read"}
# Least share of lost samples that needs a fix.
_MUCH = 0.05
_NO_CAPTION = frozenset(
    {"no-caption", "no-image-or-caption", "no-json", "not-text", "empty-caption"}
)
_NO_IMAGE = frozenset({"no-image", "no-image-or-caption"})
_JSON = ("json", "jsn")


def peek_json_names(url: Shard, member: str, *, allow_pipe: bool = False) -> ShardEvidence | None:
    """Return the JSON names in the first hundred members called ``member``.

    They are in ``json_keys``. None if none arrived in two seconds.
    """
    evidence = ShardEvidence(url)
    thread = threading.Thread(
        target=_read, args=(evidence, member, allow_pipe), name="wdsflow-peek", daemon=True
    )
    thread.start()
    # Abandoned if storage hangs.
    thread.join(_PEEK_SECONDS + 0.5)
    return evidence if evidence.json_keys and not thread.is_alive() else None


def _read(evidence: ShardEvidence, member: str, allow_pipe: bool) -> None:
    until = time.monotonic() + _PEEK_SECONDS
    with suppress(SourceError, OSError), open_source(evidence.url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for _, _, field, row in group_members(walk):
            if time.monotonic() > until or evidence.samples >= _PEEK_JSONS:
                return
            if row[4] == "file" and field.lower() == member and row[1] <= _LARGEST_JSON:
                evidence.samples += 1
                add_json_names(evidence, decode_json(walk.read(row), ())[2])


class StallError(FeedStopped):
    """Raised on all ranks when training waits for batches that never come.

    The message has the reason and fixes.
    """


class WorkerFacts(NamedTuple):
    """The shards of one worker of one rank, and their usable samples."""

    number: int
    shards: int
    # Url of one of them, "" if it has none.
    shard: str
    # Samples of the last whole pass over them.
    usable: int
    batch_size: int
    # Whole passes so far.
    passes: int
    # Workers of this rank.
    workers: int = 1


def stall_message(
    *,
    tally: LossTally,
    worker: WorkerFacts | None = None,
    waited: float | None = None,
    lost_in_a_row: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    options: FeedOptions | None = None,
    busy: Sequence[BusyDecoder] = (),
    reading: Sequence[HangingShard] = (),
    data: str = "",
    event: str = "",
) -> str:
    """Return what happened, where samples were lost, and what to do, in about a dozen lines.

    If captions may be in JSON, it searches one shard for their name, for at most two seconds.

    Args:
        tally: counts of this rank's samples.
        worker: the worker without samples, if one is to blame.
        waited: seconds without a batch.
        lost_in_a_row: samples lost since the last good one, if that ended the wait.
        rank: of this process.
        world_size: number of ranks.
        options: of the feed; commands repeat them.
        busy: decoders that hang at a sample.
        reading: shards that hang.
        data: the shards as the user named them.
        event: what happened, if training did not wait for a batch.
    """
    # Another thread writes it.
    tally = tally.copy()
    options = options or FeedOptions()
    name = rank_name(rank, world_size)
    if worker is not None:
        name += f", worker {worker.number}"
    sentence = f"{event}." if event else _event(worker, waited, lost_in_a_row)
    lines = [f"{name}: {sentence}", *hanging_lines(busy, reading)]
    if not event:
        lines += _loss_lines(tally)
    if busy or reading:
        fixes = list(hanging_fixes(busy, reading, options))
        if not any(decoder.stopped for decoder in busy):
            fixes += _longer_wait_fix(options)
    else:
        names = _names_in_json(tally, options)
        if names.wrong:
            lines.append(f"{_capitalised(names.wrong)}.")
        fixes = list(_fixes(tally, worker, options, data, names, waited=waited))
    fix_lines = [f"  {fix}" for fix in dict.fromkeys(fixes)]
    return "\n".join([*lines, "To fix it:", *fix_lines])


def rank_name(rank: int, world_size: int) -> str:
    """Return "rank 0", with the number of ranks if there are several."""
    return f"rank {rank} of {world_size}" if world_size > 1 else f"rank {rank}"


def _starves(worker: WorkerFacts | None) -> bool:
    """Return whether a worker cannot fill a batch, however long it reads."""
    if worker is None:
        return False
    if not worker.shards:
        return True
    return worker.passes > 0 and worker.usable < worker.batch_size


def _event(worker: WorkerFacts | None, waited: float | None, lost_in_a_row: int | None) -> str:
    """Return a sentence on what happened."""
    parts = []
    if waited is not None:
        parts.append(f"no batch for {waited:,.0f} s")
    if lost_in_a_row is not None:
        parts.append(f"{how_many(lost_in_a_row, 'sample')} lost in a row")
    if worker is not None and not worker.shards:
        parts.append("this worker has no shard to read: the set has fewer shards than workers")
    elif worker is not None and _starves(worker):
        shards = "its only shard" if worker.shards == 1 else f"its {worker.shards:,} shards"
        usable = how_many(worker.usable, "usable sample")
        parts.append(
            f"a whole pass over {shards} gave {usable}, a batch needs {worker.batch_size:,}"
        )
    event = "; ".join(parts) or "no batch comes"
    if _starves(worker):
        event += ". OpenCLIP's own loader would hang"
    return f"{event}."


def _loss_lines(tally: LossTally) -> Iterator[str]:
    """Yield where samples were lost, the fields of incomplete ones, and the damaged shards."""
    seen = f"Of {how_many(tally.seen, 'sample')} seen on this rank"
    if not tally.seen:
        yield "No sample was seen."
    elif not tally.reasons:
        yield f"{seen}, none was lost."
    else:
        yield f"{seen}, {tally.lost:,} were lost:"
    yield from _reason_lines(tally.reasons)
    if tally.fields:
        shown: list[str] = []
        for names, count in tally.fields.most_common(_MOST_SHOWN):
            fields = ", ".join(escape(name, 40) for name in names) or "none"
            shown.append(f"{fields} ({count:,})")
        yield f"Fields of samples that lack something: {'; '.join(shown)}"
    yield from _damage_lines(list(tally.damage.values()))


def _reason_lines(reasons: Sequence[LossReason]) -> Iterator[str]:
    """Yield a line for each of the most frequent reasons, and one on the others."""
    for reason in reasons[:_MOST_SHOWN]:
        loss = reason.first
        example = f"{escape(loss.key, 60)} in {escape(loss.shard, 100)}"
        if loss.detail:
            example += f": {escape(loss.detail, 80)}"
        yield f"  {loss.stage}: {loss.reason} {reason.count:,} (first: {example})"
    others = reasons[_MOST_SHOWN:]
    if others:
        samples = sum(reason.count for reason in others)
        yield f"  and {how_many(len(others), 'more reason')}: {samples:,}"


def _damage_lines(damage: Sequence[Damage]) -> Iterator[str]:
    """Yield a line for each of the first damaged shards, and how many more there are."""
    for item in damage[: _MOST_SHOWN - 1]:
        kind = _DAMAGE.get(item.what, "Damaged")
        shard = escape(item.shard, 100)
        if item.what not in {MISSING, UNREADABLE, NO_TAR}:
            shard += f": {item.what}"
        yield f"{kind}: {shard}, {escape(item.detail, 80)}"
    if len(damage) >= _MOST_SHOWN:
        yield f"and {how_many(len(damage) - _MOST_SHOWN + 1, 'more shard')}"


class _NamesInJson(NamedTuple):
    """What the json of some samples has, if captions are or may be in it.

    ``member``: of the json; "" if there is none. ``wrong``: the problem if it has none of the names
    that are asked for.
    """

    member: str = ""
    shard: Shard = Shard("")
    peeked: Sequence[ShardEvidence] = ()
    wrong: str = ""


def _names_in_json(tally: LossTally, options: FeedOptions) -> _NamesInJson:
    """Read the json of a shard if many samples have no caption."""
    without_caption = [
        reason.first for reason in _frequent(tally) if reason.first.reason in _NO_CAPTION
    ]
    captions = requested_captions(options)
    if not without_caption or captions is None:
        return _NamesInJson()
    requested = [source.source for source in captions.sources if not isinstance(source, str)]
    fields = _fields(tally)
    candidates = [*requested, *(name for name in _JSON if name in fields)]
    if not candidates:
        return _NamesInJson()
    member = candidates[0]
    shard = without_caption[0].shard
    evidence = peek_json_names(shard, member, allow_pipe=False)
    if evidence is None:
        return _NamesInJson(member, shard)
    wrong = json_names_problem(captions, [evidence]) if member in requested else ""
    return _NamesInJson(member, shard, [evidence], wrong)


def _frequent(tally: LossTally) -> list[LossReason]:
    """Return the reasons for so many losses that they need a fix."""
    return [reason for reason in tally.reasons if reason.count >= _MUCH * tally.seen]


def _fields(tally: LossTally) -> list[str]:
    """Return the fields of samples that lacked one, the most frequent first."""
    return list(dict.fromkeys(name for fields, _ in tally.fields.most_common() for name in fields))


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fixes(
    tally: LossTally,
    worker: WorkerFacts | None,
    options: FeedOptions,
    data: str,
    json: _NamesInJson,
    *,
    waited: float | None,
) -> Iterator[str]:
    frequent = _frequent(tally)
    names = _fields(tally)
    slugs = {reason.first.reason for reason in frequent}
    damage = list(tally.damage.values())
    if slugs & _NO_CAPTION:
        yield from _caption_fixes(names, json, options)
    if slugs & _NO_IMAGE:
        yield from image_fixes(options, names)
    if worker is not None and _starves(worker):
        # Otherwise the lost samples or shards are to blame, not the number of workers.
        lost_all = bool(frequent) and not tally.kept
        lost_shards = any(map(_is_lost, damage)) and not worker.usable
        if not lost_all and not lost_shards:
            yield from _worker_fixes(worker, options)
    is_missing = MISSING in slugs or any(item.what == MISSING for item in damage)
    if is_missing:
        yield f"bring the missing shards back, or leave them out of {argument_name(options, 'train_data')}"
    yield from _damage_fixes(damage)
    if waited is not None and not frequent and not _starves(worker):
        yield from _longer_wait_fix(options)
    if json.wrong:
        # validate judges captions in txt: its report would say that such shards train.
        yield f"to see the json of a sample: {inspect_command(json.shard)}"
        return
    shard = frequent[0].first.shard if frequent else ""
    if not shard and worker is not None:
        shard = worker.shard
    urls = data if data and (is_missing or not shard) else shard
    if urls:
        allow_pipe = " --allow-pipe" if urls.startswith("pipe:") else ""
        yield f"full report, with fixes: wdsflow validate {quote(urls)}{allow_pipe}"


def _is_lost(damage: Damage) -> bool:
    """Return whether damage of a shard means that none of its samples comes."""
    return damage.what in {MISSING, UNREADABLE} or damage.shard.is_pipe


def _damage_fixes(damage: Sequence[Damage]) -> Iterator[str]:
    unreadable = next((item for item in damage if item.what == UNREADABLE), None)
    if unreadable is not None:
        yield f"see whether it can be read: {inspect_command(unreadable.shard)}"
    for item in damage:
        if item.what in {MISSING, UNREADABLE}:
            continue
        if item.what == WRONG_CHECKSUM:
            yield f"fetch the shard again, then see that it is whole: wdsflow validate {quote(item.shard)}"
        elif item.shard.is_pipe:
            yield f"see what the command says: sh -c {quote(item.shard.removeprefix('pipe:'))} > /dev/null"
        else:
            yield f"recover the valid samples of damaged shards: wdsflow repair {quote(item.shard)} -o repaired"
        return


def _longer_wait_fix(options: FeedOptions) -> Iterator[str]:
    longer = f"{10 * options.stall_after:g}"
    yield f"if data is only slow, wait longer: {rerun_command(options, stall_after=longer)}"


def _caption_fixes(names: Sequence[str], json: _NamesInJson, options: FeedOptions) -> Iterator[str]:
    if not json.member:
        yield from caption_fixes(options, names, [])
        return
    present = names if json.member in names else [json.member, *names]
    fixes = list(caption_fixes(options, present, json.peeked))
    yield from fixes
    if not json.wrong and not any(f"{json.member}:" in fix for fix in fixes):
        yield f"captions may be in {json.member}; to see the name: {inspect_command(json.shard)}"


def _worker_fixes(worker: WorkerFacts, options: FeedOptions) -> Iterator[str]:
    if options.workers_have_shards:
        yield f"one share for all workers: {rerun_command(options, schedule='balanced')}"
    changes: list[str] = []
    if worker.workers > 1:
        changes.append(f"fewer workers than {worker.workers} ({argument_name(options, 'workers')})")
    if worker.usable:
        equals = " " if options.argv else " = "
        changes.append(f"{argument_name(options, 'batch_size')}{equals}{worker.usable}")
    if changes:
        yield f"or of OpenCLIP's own arguments: {' or '.join(changes)}"
    else:
        yield "more shards"
