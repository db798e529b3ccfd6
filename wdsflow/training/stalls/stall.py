"""The message when training waits for batches that never come."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from wdsflow.scan.content.text_content import look_at_json
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import note_names
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk
from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions, FeedStopped
from wdsflow.training.sample_tasks import Reading
from wdsflow.training.stalls.field_fixes import BusyWith, hanging, hanging_fixes, inspect

from .field_fixes import (
    argument,
    caption_fixes,
    command,
    image_fixes,
    requested_captions,
    wrong_names,
)
from .loss_tally import MISSING, NO_TAR, UNREADABLE, WRONG_CHECKSUM, Damage, LossReason, LossTally

_PEEK_SECONDS = 1.5
_PEEK_JSONS = 100
# Bytes of one json.
_LARGEST_JSON = 1 << 20
# Reasons, sets of fields and damaged shards that are shown.
_MOST_SHOWN = 4
# Least share of lost samples that needs a fix.
_MUCH = 0.05
_NO_CAPTION = frozenset(
    {"no-caption", "no-image-or-caption", "no-json", "not-text", "empty-caption"}
)
_NO_IMAGE = frozenset({"no-image", "no-image-or-caption"})
_JSON = ("json", "jsn")


def peek(url: Shard, member: str, *, allow_pipe: bool = False) -> ShardEvidence | None:
    """Return the JSON names in the first hundred members of that name, in ``json_keys``; None if none came in two seconds."""
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
        for _, _, field, row in grouped(walk):
            if time.monotonic() > until or evidence.samples >= _PEEK_JSONS:
                return
            if row[4] == "file" and field.lower() == member and row[1] <= _LARGEST_JSON:
                evidence.samples += 1
                note_names(evidence, look_at_json(walk.read(row), ())[2])


class StallError(FeedStopped):
    """Raised on all ranks when training waits for batches that never come. The message has the reason and fixes."""


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
    busy: Sequence[BusyWith] = (),
    reading: Sequence[Reading] = (),
    data: str = "",
    what: str = "",
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
        what: what happened, if training did not wait for a batch.
    """
    # Another thread writes it.
    tally = tally.copy()
    who = rank_name(rank, world_size) + (f", worker {worker.number}" if worker is not None else "")
    happened = f"{what}." if what else _what(worker, waited, lost_in_a_row)
    lines = [f"{who}: {happened}", *hanging(busy, reading), *([] if what else _where(tally))]
    options = options or FeedOptions()
    if busy or reading:
        slow = () if any(decoder.stopped for decoder in busy) else _longer(options)
        fixes = [*hanging_fixes(busy, reading, options), *slow]
    else:
        names = _names_in_json(tally, options)
        lines += [f"{_capitalised(names.wrong)}."] if names.wrong else []
        fixes = list(_fixes(tally, worker, options, data, names, waited=waited))
    return "\n".join([*lines, "To fix it:", *(f"  {fix}" for fix in dict.fromkeys(fixes))])


def rank_name(rank: int, world_size: int) -> str:
    """Return "rank 0", with the number of ranks if there are several."""
    return f"rank {rank}" + (f" of {world_size}" if world_size > 1 else "")


def _starves(worker: WorkerFacts | None) -> bool:
    return worker is not None and (
        not worker.shards or (worker.passes > 0 and worker.usable < worker.batch_size)
    )


def _what(worker: WorkerFacts | None, waited: float | None, lost_in_a_row: int | None) -> str:
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
    ever = ". OpenCLIP's own loader would hang" if _starves(worker) else ""
    return f"{'; '.join(parts) or 'no batch comes'}{ever}."


def _where(tally: LossTally) -> Iterator[str]:
    reasons = tally.reasons
    if not tally.seen:
        yield "No sample was seen."
    elif not reasons:
        yield f"Of {how_many(tally.seen, 'sample')} seen on this rank, none was lost."
    else:
        yield f"Of {how_many(tally.seen, 'sample')} seen on this rank, {tally.lost:,} were lost:"
    for reason in reasons[:_MOST_SHOWN]:
        loss = reason.first
        detail = f": {escape(loss.detail, 80)}" if loss.detail else ""
        example = f"{escape(loss.key, 60)} in {escape(loss.shard, 100)}{detail}"
        yield f"  {loss.stage}: {loss.reason} {reason.count:,} (first: {example})"
    if len(reasons) > _MOST_SHOWN:
        yield f"  and {how_many(len(reasons) - _MOST_SHOWN, 'more reason')}: {sum(reason.count for reason in reasons[_MOST_SHOWN:]):,}"
    if tally.fields:
        shown = [
            f"{', '.join(escape(name, 40) for name in names) or 'none'} ({count:,})"
            for names, count in tally.fields.most_common(_MOST_SHOWN)
        ]
        yield f"Fields of samples that lack something: {'; '.join(shown)}"
    damage = list(tally.damage.values())
    for item in damage[: _MOST_SHOWN - 1]:
        kind = {MISSING: "Missing", UNREADABLE: "Cannot be read"}.get(item.what, "Damaged")
        what = "" if item.what in {MISSING, UNREADABLE, NO_TAR} else f": {item.what}"
        yield f"{kind}: {escape(item.shard, 100)}{what}, {escape(item.detail, 80)}"
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
    names = _fields(tally)
    member = next((name for name in (*requested, *_JSON) if name in names or name in requested), "")
    if not member:
        return _NamesInJson()
    evidence = peek(without_caption[0].shard, member, allow_pipe=False)
    peeked = [evidence] if evidence is not None else []
    wrong = wrong_names(captions, peeked) if member in requested and peeked else ""
    return _NamesInJson(member, without_caption[0].shard, peeked, wrong)


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
    much, names = _frequent(tally), _fields(tally)
    slugs = {reason.first.reason for reason in much}
    if slugs & _NO_CAPTION:
        yield from _caption_fixes(names, json, options)
    if slugs & _NO_IMAGE:
        yield from image_fixes(options, names)
    missing = MISSING in slugs or any(item.what == MISSING for item in tally.damage.values())
    lost = [
        item
        for item in tally.damage.values()
        if item.what in {MISSING, UNREADABLE} or item.shard.is_pipe
    ]
    if (
        worker is not None
        and _starves(worker)
        and not (much and not tally.kept)
        and not (lost and not worker.usable)
    ):
        yield from _worker_fixes(worker, options)
    if missing:
        yield f"bring the missing shards back, or leave them out of {argument(options, 'train_data')}"
    yield from _damage_fixes(list(tally.damage.values()))
    if waited is not None and not much and not _starves(worker):
        yield from _longer(options)
    if json.wrong:
        # validate judges captions in txt: its report would say that such shards train.
        yield f"to see the json of a sample: {inspect(json.shard)}"
        return
    shard = next((reason.first.shard for reason in much), "") or (worker.shard if worker else "")
    urls = data if data and (missing or not shard) else shard
    if urls:
        yield f"full report, with fixes: wdsflow validate {quote(urls)}{' --allow-pipe' if urls.startswith('pipe:') else ''}"


def _damage_fixes(damage: Sequence[Damage]) -> Iterator[str]:
    unreadable = next((item for item in damage if item.what == UNREADABLE), None)
    if unreadable is not None:
        yield f"see whether it can be read: {inspect(unreadable.shard)}"
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


def _longer(options: FeedOptions) -> Iterator[str]:
    longer = f"{10 * options.stall_after:g}"
    yield f"if data is only slow, wait longer: {command(options, stall_after=longer)}"


def _caption_fixes(names: Sequence[str], json: _NamesInJson, options: FeedOptions) -> Iterator[str]:
    if not json.member:
        yield from caption_fixes(options, names, [])
        return
    present = names if json.member in names else [json.member, *names]
    fixes = list(caption_fixes(options, present, json.peeked))
    yield from fixes
    if not json.wrong and not any(f"{json.member}:" in fix for fix in fixes):
        yield f"captions may be in {json.member}; to see the name: {inspect(json.shard)}"


def _worker_fixes(worker: WorkerFacts, options: FeedOptions) -> Iterator[str]:
    if options.schedule != "balanced":
        yield f"one share for all workers: {command(options, schedule='balanced')}"
    changes: list[str] = []
    if worker.workers > 1:
        changes.append(f"fewer workers than {worker.workers} ({argument(options, 'workers')})")
    if worker.usable:
        equals = " " if options.argv else " = "
        changes.append(f"{argument(options, 'batch_size')}{equals}{worker.usable}")
    if changes:
        yield f"or of OpenCLIP's own arguments: {' or '.join(changes)}"
    else:
        yield "more shards"
