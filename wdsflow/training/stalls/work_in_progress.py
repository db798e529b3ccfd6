"""Who works on what, for messages when something hangs or dies: decoders at samples, readers at shards."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.sample_tasks import LaneTask, Reading

from .field_fixes import resumed

_MOST = 8  # samples that are named
_SHOWN = 3  # decoders and readers, and functions of a stack


class BusyWith(NamedTuple):
    """A decoder, and what it has been at for some time."""

    who: str  # "decoder 1 (process 4242)"
    tasks: Sequence[LaneTask]  # one; more where it is not known which of them it is; none between two
    seconds: float
    stack: Sequence[str] = ()  # functions that it is in, innermost first
    stopped: bool = False  # by a signal
    tokens: bool = False  # the images are done: it is in the tokenizer


def at(tasks: Sequence[LaneTask], *, tokens: bool = False) -> str:
    """Return which sample, or which samples, of which shards."""
    parts = []
    for shard, group in groupby(tasks[:_MOST], lambda task: task.ref.shard):
        keys = ", ".join(f"'{escape(task.ref.key, 60)}'" for task in group)
        parts.append(f"{keys} of {escape(shard, 300)}")
    more = f" and {len(tasks) - _MOST:,} more" if len(tasks) > _MOST else ""
    one = "sample" if len(tasks) == 1 else "one of the samples"
    return f"{'the tokens of ' if tokens else ''}{one} {', '.join(parts)}{more}"


def without(task: LaneTask) -> Iterator[str]:
    """Yield the command that writes a shard without one sample."""
    key, shard = task.ref.key, task.ref.shard
    if key.isprintable():
        text = key.replace("\\", "\\\\").replace('"', '\\"')
        pipe = "--allow-pipe " if shard.startswith("pipe:") else ""
        where = quote(f'key != "{text}"')
        yield f"train on its shard without this sample: wdsflow filter {quote(shard)} {pipe}-o without --where {where}"


def inspect(shard: str) -> str:
    """Return the command that shows whether a shard can be read."""
    return f"wdsflow inspect {quote(shard)}{' --allow-pipe' if shard.startswith('pipe:') else ''}"


def hanging(busy: Sequence[BusyWith], reading: Sequence[Reading]) -> Iterator[str]:
    """Yield what hangs. Decoders that are in other people's code come first: others may wait for them."""
    for each in sorted(busy, key=_blame)[:_SHOWN]:
        where = f"at {at(each.tasks, tokens=each.tokens)}" if each.tasks else "between two samples"
        inside = (
            f", in {', called by '.join(escape(frame, 200) for frame in each.stack[:_SHOWN])}" if each.stack else ""
        )
        how = "has been stopped by a signal" if each.stopped else "has been"
        yield f"{each.who} {how} {where} for {each.seconds:,.0f} s{inside}."
    for item in reading[:_SHOWN]:
        last = (
            f" after {how_many(item.samples, 'sample')}, the last of them '{escape(item.key, 60)}'"
            if item.samples
            else ""
        )
        yield f"{escape(item.shard, 300)} has given nothing for {item.seconds:,.0f} s{last}."
    more = len(busy[_SHOWN:]) + len(reading[_SHOWN:])
    if more:
        yield f"{more:,} more decoders or shards hang."


def hanging_fixes(busy: Sequence[BusyWith], reading: Sequence[Reading], options: FeedOptions) -> Iterator[str]:
    """Yield what to do about that."""
    if any(each.stopped for each in busy):
        yield f"do not stop decoders; from the last checkpoint: {resumed(options)}"
    for each in sorted(busy, key=_blame)[:1]:
        if not each.stopped and len(each.tasks) == 1:
            yield from without(each.tasks[0])
    for item in reading[:1]:
        yield f"see whether it answers: timeout 60 {inspect(item.shard)}"


def _blame(busy: BusyWith) -> tuple[bool, float]:
    return not busy.stack, -busy.seconds
