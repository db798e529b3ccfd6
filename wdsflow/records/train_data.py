"""The arguments with which OpenCLIP trains on the shards of an output folder."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.brace_pattern import brace_pattern
from wdsflow.shards.numbered_names import natural_order
from wdsflow.text.shell import command, escape
from wdsflow.text.words import how_many

from .shard_counts import COUNTS

# Characters of a pattern: longer ones are hard to paste,
# and systems limit the length of an argument.
_LONGEST = 8_000
_NAMED = 8


def train_data_lines(folder: Path, url: str, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Yield lines with ``--train-data`` and ``--train-num-samples`` for a folder's shards.

    Shards that were left out are listed too.

    Args:
        folder: has ``sizes.json``; nothing is yielded if it has none.
        url: the folder as training names it.
        left_out: names of outputs that do not exist, because no sample was kept.
    """
    samples = _counts(folder)
    if not samples:
        return
    # A leading dash would make it an option of the training command.
    pattern = brace_pattern(
        f"./{url}" if url.startswith("-") else url, sorted(samples, key=natural_order)
    )
    if pattern and len(pattern) <= _LONGEST:
        arguments = command(
            ["--train-data", pattern, "--train-num-samples", str(sum(samples.values()))]
        )
        yield f"to train on it: {arguments}"
    elif pattern:
        words = [
            "wdsflow",
            "reshard",
            url,
            "-o",
            f"{url.rstrip('/')}-numbered",
            "--shards",
            str(len(samples)),
        ]
        new = command(words)
        yield f"no short pattern names its {how_many(len(samples), 'shard')}; to number them: {new}"
    else:
        yield f"OpenCLIP has no pattern for {escape(url, 300)}: give it a path, and its shards names, without \\, $ and ::"
    yield from _left_out_line(left_out)


def _left_out_line(names: Iterable[str]) -> Iterator[str]:
    names = sorted(names, key=natural_order)
    if not names:
        return
    shown = ", ".join(escape(name, 100) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    verb = "was" if len(names) == 1 else "were"
    yield f"{how_many(len(names), 'shard')} {verb} not written, because nothing was kept: {shown}{more}"


def _counts(folder: Path) -> dict[str, int]:
    """Return the samples of each shard by ``sizes.json``; none without one."""
    with suppress(OSError, ValueError):
        counts = json.loads((folder / COUNTS[0]).read_bytes())
        if isinstance(counts, dict):
            return {str(name): int(count) for name, count in counts.items() if count}
    return {}
