"""Decoders and shards that hang, in messages: which samples they are at, and what to do."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.sample_tasks import Reading, Task

from .field_fixes import inspect, resumed

# Samples that are listed.
_MOST = 8
# Decoders and readers, and functions of a stack.
_SHOWN = 3


class BusyWith(NamedTuple):
    """A decoder that has been at one sample for some time."""

    # "decoder 1 (process 4242)".
    who: str
    # One; several if unknown which; none between two.
    tasks: Sequence[Task]
    seconds: float
    # Function names, innermost first.
    stack: Sequence[str] = ()
    # By a signal.
    stopped: bool = False
    # It is in the tokenizer.
    tokens: bool = False


def at(tasks: Sequence[Task], *, tokens: bool = False) -> str:
    """Return the names of samples and their shards."""
    parts = []
    for shard, group in groupby(tasks[:_MOST], lambda task: task.ref.shard):
        keys = ", ".join(f"'{escape(task.ref.key, 60)}'" for task in group)
        parts.append(f"{keys} of {escape(shard, 300)}")
    names = "sample" if len(tasks) == 1 else "one of the samples"
    text = f"{names} {', '.join(parts)}"
    if len(tasks) > _MOST:
        text += f" and {len(tasks) - _MOST:,} more"
    return f"the tokens of {text}" if tokens else text


def without(task: Task) -> Iterator[str]:
    """Yield the command that writes a shard without one sample."""
    key, shard = task.ref.key, task.ref.shard
    if key.isprintable():
        text = key.replace("\\", "\\\\").replace('"', '\\"')
        pipe = "--allow-pipe " if shard.is_pipe else ""
        where = quote(f'key != "{text}"')
        yield f"train on its shard without this sample: wdsflow filter {quote(shard)} {pipe}-o without --where {where}"


def hanging(busy: Sequence[BusyWith], reading: Sequence[Reading]) -> Iterator[str]:
    """Yield lines on hanging decoders and shards.

    Decoders in foreign code come first, because the others may wait for them.
    """
    for decoder in sorted(busy, key=_blame)[:_SHOWN]:
        yield _decoder_line(decoder)
    for item in reading[:_SHOWN]:
        yield _shard_line(item)
    more = len(busy[_SHOWN:]) + len(reading[_SHOWN:])
    if more:
        yield f"{more:,} more decoders or shards hang."


def _decoder_line(decoder: BusyWith) -> str:
    state = "has been stopped by a signal" if decoder.stopped else "has been"
    position = "between two samples"
    if decoder.tasks:
        position = f"at {at(decoder.tasks, tokens=decoder.tokens)}"
    line = f"{decoder.who} {state} {position} for {decoder.seconds:,.0f} s"
    frames = ", called by ".join(escape(frame, 200) for frame in decoder.stack[:_SHOWN])
    if frames:
        line += f", in {frames}"
    return f"{line}."


def _shard_line(item: Reading) -> str:
    line = f"{escape(item.shard, 300)} has given nothing for {item.seconds:,.0f} s"
    if item.samples:
        samples = how_many(item.samples, "sample")
        line += f" after {samples}, the last of them '{escape(item.key, 60)}'"
    return f"{line}."


def hanging_fixes(
    busy: Sequence[BusyWith], reading: Sequence[Reading], options: FeedOptions
) -> Iterator[str]:
    """Yield fixes for decoders and shards that hang."""
    if any(decoder.stopped for decoder in busy):
        yield f"do not stop decoders; from the last checkpoint: {resumed(options)}"
    for decoder in sorted(busy, key=_blame)[:1]:
        if not decoder.stopped and len(decoder.tasks) == 1:
            yield from without(decoder.tasks[0])
    for item in reading[:1]:
        yield f"see whether it answers: timeout 60 {inspect(item.shard)}"


def _blame(busy: BusyWith) -> tuple[bool, float]:
    return not busy.stack, -busy.seconds
