"""``wdsflow scores``: the catalog of scores."""

import inspect
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from wdsflow.cli.runs.score_values import score_lines
from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.printing import print_lines
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.install import install_extras
from wdsflow.text.options import argument, option
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many, without_markup

if TYPE_CHECKING:
    from wdsflow.stages.scores.base import Score


# What a score of each tier costs, in the order of TIERS.
_COSTS = {
    "header": "read from names and first bytes; nothing is decoded",
    "text": "read from the caption or the json",
    "pixels": "the image is decoded",
    "model": "a model runs, on a GPU if there is one; ~2 s is what one CPU core takes for a sample without",
}


@dataclass(frozen=True)
class ScoresOptions:
    """Names of scores, and where their values are."""

    names: list[str] | None = argument("[NAME]", "A score; prints its page. With --ledger: scores.")
    ledger: Path | None = option(
        None, "Folder that measure or filter wrote: print its values.", metavar="DIR"
    )


def scores(_: Typed, options: ScoresOptions) -> None:
    """List the scores for predicates, or the values in a ledger.

    The list has a line for each score. With NAME, show all about one: its range, settings and
    source.

    With --ledger, show the computed values instead: how many, quantiles, a histogram, the share
    that thresholds keep, and commands that filter there:

    wdsflow scores --ledger scored blur caption_words
    """
    names = options.names or []
    if options.ledger is not None:
        _values(options.ledger, names)
        return
    if len(names) > 1:
        refuse("without --ledger, name one score", f"wdsflow scores {quote_path(names[0])}")
    _catalog(names[0] if names else None)


def _values(folder: Path, names: list[str]) -> None:
    from wdsflow.expressions.errors import nearest
    from wdsflow.filtering.deciding.ledger_scores import LedgerScores
    from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore

    again = Typed.spell_command("scores", ledger=folder)
    try:
        ledger = LedgerScores(folder)
        calls = dict.fromkeys(ledger.calls)
        if names:
            calls = {}
            for name in names:
                calls |= dict.fromkeys(ledger.find_scores(name))
        used_names: set[str] = set()
        print(f"{folder}: {how_many(len(ledger.records), 'shard')}")
        if ledger.remaining:
            remaining = how_many(ledger.remaining, "more shard")
            print(f"{remaining} not finished: the command of the run resumes it")
        for call in calls:
            print()
            print_lines(*score_lines(ledger, ledger.column(call), folder, used_names))
    except MissingScore as error:
        close = nearest(error.call, [call.name for call in ledger.calls])
        refuse(str(error), f"{again} {close}" if close else again)
    except LedgerError as error:
        near = nearest_ledger(folder)
        fix = ""
        if near is not None and near != folder:
            fix = Typed.spell_command("scores", ledger=near)
        refuse(str(error), fix)


def _catalog(name: str | None) -> None:
    from wdsflow.filtering.predicates.sample_facts import FACTS
    from wdsflow.stages.scores.score_catalog import all_scores

    try:
        scores = {**FACTS, **all_scores()}
    except ValueError as error:
        refuse(str(error))
    if name is not None:
        if name not in scores:
            from wdsflow.expressions.errors import nearest

            close = nearest(name, scores)
            hint = f"did you mean {close}? wdsflow scores {close}" if close else "wdsflow scores"
            refuse(f"no score is called {name!r}", hint)
        _page(scores[name])
        return
    print_lines(*_list_lines(scores.values()))


def _list_lines(scores: "Iterable[type[Score]]") -> Iterator[str]:
    """Yield the catalog: a heading for each tier, and a line for each score.

    Lines are cut at the width of a terminal.
    """
    from wdsflow.stages.scores.base import TIERS

    by_tier = {tier: [score for score in scores if score.tier == tier] for tier in TIERS}
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for tier, members in by_tier.items():
        yield f"{tier}: {_COSTS[tier]}"
        for score in sorted(members, key=attrgetter("name")):
            line = _list_line(score)
            if width is not None and len(line) > width:
                line = f"{line[: width - 3]}..."
            yield line
        yield ""
    yield "all about one of them: wdsflow scores clip_similarity"


def _list_line(score: "type[Score]") -> str:
    notes: list[str] = []
    if score.cpu_seconds is not None:
        notes.append(f"~{score.cpu_seconds:g} s")
    if score.needs:
        notes.append(f"needs wdsflow[{','.join(score.needs)}]")
    extra = f"{', '.join(notes)}: " if notes else ""
    return f"  {score.name:<19}  {score.unit or score.kind:<10}  {extra}{score.meaning()}"


def _range(score: "type[Score]") -> str:
    if score.low is None and score.high is None:
        return ""
    low, high = ("" if end is None else f"{end:g}" for end in (score.low, score.high))
    return f"{low} .. {high}"


def _needs(score: "type[Score]") -> str:
    """Return the extra that a score needs, or the command that installs it."""
    try:
        score.check_installed()
    except ValueError:
        return install_extras(*score.needs)
    return f"the extra {', '.join(score.needs)}, which is installed"


def _page(score: "type[Score]") -> None:
    heading = f"{score.name}: {score.tier} tier, {score.kind}"
    if score.unit:
        heading += f" in {score.unit}"
    value_range = _range(score)
    if value_range:
        heading += f", {value_range}"
    print(heading)
    if score.needs:
        print(f"needs: {_needs(score)}")
    if score.cpu_seconds is not None:
        print(
            f"cost: about {score.cpu_seconds:g} s of a CPU core for a sample, with the default model; a GPU takes less."
        )
        print("wdsflow filter --explain measures it on your shards.")
    print(f"\n{without_markup(inspect.cleandoc(score.__doc__ or ''))}")
    _print_tolerance(score)
    for item in fields(score):
        setting = f"setting {item.name}"
        if item.default is not MISSING:
            setting += f" = {item.default!r}"
        if get_origin(item.type) is Literal:
            setting += f" ({', '.join(map(repr, get_args(item.type)))})"
        print(f"\n{setting}")


def _print_tolerance(score: "type[Score]") -> None:
    """Print how much decoding at a reduced scale may change a score, if that is known."""
    if score.scale_tolerance is None:
        return
    most, of = score.scale_tolerance
    amount = f"{most:g} {of}" if of else f"{most:g}"
    print(
        f"\ntolerance: at most {amount}, in photographs: large images are decoded at a reduced scale;"
    )
    exceptions = "stripes, checks and noise of a few pixels may change more"
    if "decode" in {item.name for item in fields(score)}:
        exceptions += '; decode="exact" avoids it'
    print(exceptions)
