"""What thresholds of a score keep, and the commands that filter there."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.typed import Typed, free
from wdsflow.joining.recorded_join import recorded_join
from wdsflow.shards.shard import Shard
from wdsflow.text.shell import escape
from wdsflow.text.words import number_text

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.ledger_scores import LedgerScores
    from wdsflow.filtering.deciding.score_column import ScoreColumn

# Shares of the samples to keep.
_SHARES = (0.3, 0.5, 0.7)


def threshold_lines(
    scores: "LedgerScores", column: "ScoreColumn", ledger: Path, used_names: set[str]
) -> Iterator[str]:
    """Yield what round thresholds keep, and commands that keep some shares of the samples.

    ``used_names``: names of output folders in earlier lines; those of the commands are added.
    """
    urls = [Shard.stored(record.url) for record in scores.records]
    if column.where is None:
        yield "  what a threshold keeps is not known: the run did not compute the score for all samples"
        yield f"  to compute it: {_measure_command(column, ledger, urls)}"
        return
    if column.where:
        yield f"  not computed for all samples; known with: {escape(column.where, 2_000)}"
    for number in column.round_thresholds():
        yield f"  {column.comparison} {number_text(number)} keeps {_kept_text(column, number)}"
    shares_by_threshold = _shares_by_threshold(column)
    if not shares_by_threshold:
        yield "  no number divides these values" if column.computed > 1 else "  a single value"
    for threshold, shares in shares_by_threshold.items():
        percents = [f"{share:.0%}" for share in shares]
        tie = _tie_text(column, shares)
        yield f"  to keep {' or '.join(percents)}, precisely {_kept_text(column, threshold)}{tie}:"
        out = _unused_folder(f"{column.call.name}-{percents[0]}".rstrip("%"), used_names)
        used_names.add(out.name)
        where = column.predicate(threshold)
        command = Typed.spell(
            "filter", *urls, ledger=ledger, where=where, out=out, **recorded_join(ledger)
        )
        yield f"  {command}{_pipe_option(urls)}"
    yield from _missing_shard(urls)


def _measure_command(column: "ScoreColumn", ledger: Path, urls: list[Shard]) -> str:
    recipe = ledger / ".wdsflow" / "run.json"
    out = free(Path(f"{ledger}-all"))
    join = recorded_join(ledger)
    command = Typed.spell("measure", *urls, out=out, scores=str(column.call), recipe=recipe, **join)
    return f"{command}{_pipe_option(urls)}"


def _shares_by_threshold(column: "ScoreColumn") -> dict[float, list[float]]:
    """Return the thresholds nearest to some shares, each with its shares.

    One threshold may be the nearest to several shares.
    """
    shares: dict[float, list[float]] = {}
    for share in _SHARES:
        threshold = column.threshold_for(share)
        if threshold is not None:
            shares.setdefault(threshold, []).append(share)
    return shares


def _tie_text(column: "ScoreColumn", shares: list[float]) -> str:
    """Return why no threshold comes nearer to one of the shares, if many samples have one value."""
    for share in shares:
        tie = column.equals(share)
        if tie:
            value, samples = tie
            return f" (no number comes nearer: {samples:,} samples have the value {value:.6g})"
    return ""


def _unused_folder(name: str, used_names: set[str]) -> Path:
    """Return a path for an output folder that does not exist, and whose name is not used yet."""
    number = 1
    path = free(Path(name))
    while path.name in used_names:
        number += 1
        path = free(Path(f"{name}-{number}"))
    return path


def _missing_shard(urls: list[Shard]) -> Iterator[str]:
    """Yield a warning if a shard is not at its path, which may be relative to another folder."""
    for url in urls:
        if url.path is not None and not os.path.exists(url.path):
            yield f"  {escape(url)} is not here: run these commands in the folder in which the shards were scored"
            return


def _kept_text(column: "ScoreColumn", threshold: float) -> str:
    kept = column.kept(threshold)
    return f"{kept / column.samples:.1%} ({kept:,} of {column.samples:,})"


def _pipe_option(urls: list[Shard]) -> str:
    return " --allow-pipe" if any(url.is_pipe for url in urls) else ""
