"""Decoders and shards that hang, in messages: which samples they are at, and what to do."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.sample_tasks import HangingShard, Task

from .field_fixes import inspect_command, resume_command

# Samples that are listed.
_MOST = 8
# Decoders and readers, and functions of a stack.
_SHOWN = 3


class BusyDecoder(NamedTuple):
    """A decoder that has been at one sample for some time."""

    # "decoder 1 (process 4242)".
    name: str
    # One; several if unknown which; none between two.
    tasks: Sequence[Task]
    seconds: float
    # Function names, innermost first.
    stack: Sequence[str] = ()
    # By a signal.
    stopped: bool = False
    # It is in the tokenizer.
    in_tokenizer: bool = False


def samples_text(tasks: Sequence[Task], *, in_tokenizer: bool = False) -> str:
    """Return the names of samples and their shards."""
    parts = []
    for shard, group in groupby(tasks[:_MOST], lambda task: task.ref.shard):
        keys = ", ".join(f"'{escape(task.ref.key, 60)}'" for task in group)
        parts.append(f"{keys} of {escape(shard, 300)}")
    names = "sample" if len(tasks) == 1 else "one of the samples"
    text = f"{names} {', '.join(parts)}"
    if len(tasks) > _MOST:
        text += f" and {len(tasks) - _MOST:,} more"
    return f"the tokens of {text}" if in_tokenizer else text


def exclusion_fix(task: Task) -> Iterator[str]:
    """Yield the command that writes a shard without one sample."""
    key, shard = task.ref.key, task.ref.shard
    if key.isprintable():
        text = key.replace("\\", "\\\\").replace('"', '\\"')
        pipe = "--allow-pipe " if shard.is_pipe else ""
        where = quote(f'key != "{text}"')
        yield f"train on its shard without this sample: wdsflow filter {quote(shard)} {pipe}-o without --where {where}"


def hanging_lines(busy: Sequence[BusyDecoder], reading: Sequence[HangingShard]) -> Iterator[str]:
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


def _decoder_line(decoder: BusyDecoder) -> str:
    state = "has been stopped by a signal" if decoder.stopped else "has been"
    position = "between two samples"
    if decoder.tasks:
        position = f"at {samples_text(decoder.tasks, in_tokenizer=decoder.in_tokenizer)}"
    line = f"{decoder.name} {state} {position} for {decoder.seconds:,.0f} s"
    frames = ", called by ".join(escape(frame, 200) for frame in decoder.stack[:_SHOWN])
    if frames:
        line += f", in {frames}"
    return f"{line}."


def _shard_line(item: HangingShard) -> str:
    line = f"{escape(item.shard, 300)} has given nothing for {item.seconds:,.0f} s"
    if item.samples:
        samples = how_many(item.samples, "sample")
        line += f" after {samples}, the last of them '{escape(item.key, 60)}'"
    return f"{line}."


def hanging_fixes(
    busy: Sequence[BusyDecoder], reading: Sequence[HangingShard], options: FeedOptions
) -> Iterator[str]:
    """Yield fixes for decoders and shards that hang."""
    if any(decoder.stopped for decoder in busy):
        yield f"do not stop decoders; from the last checkpoint: {resume_command(options)}"
    for decoder in sorted(busy, key=_blame)[:1]:
        if not decoder.stopped and len(decoder.tasks) == 1:
            yield from exclusion_fix(decoder.tasks[0])
    for item in reading[:1]:
        yield f"see whether it answers: timeout 60 {inspect_command(item.shard)}"


def _blame(busy: BusyDecoder) -> tuple[bool, float]:
    return not busy.stack, -busy.seconds
