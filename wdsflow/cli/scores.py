"""``wdsflow scores``: the catalog of scores."""

import inspect
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from wdsflow.cli.shared.nearest_paths import nearest_ledger
from wdsflow.cli.shared.score_text import score_lines
from wdsflow.cli.shared.terminal import console, fail
from wdsflow.cli.shared.typed import Typed
from wdsflow.text.install import install_extras
from wdsflow.text.options import argument, option
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many, without_markup

if TYPE_CHECKING:
    from wdsflow.stages.scores.base import Score


@dataclass(frozen=True)
class ScoresOptions:
    """Names of scores, and where their values are."""

    names: list[str] | None = argument("[NAME]", "A score; prints its page. With --ledger: scores.")
    ledger: Path | None = option(None, "Folder that score or filter wrote: print its values.", metavar="DIR")


def scores(_: Typed, asked: ScoresOptions) -> None:
    """List the scores for predicates.

    With NAME, show its page. The list has tier (the cost: header, text, pixels, model), unit, range, and required
    extras.

    With --ledger, show the computed values instead: how many, quantiles, a histogram, the share that thresholds keep,
    and commands that cut there:

    wdsflow scores --ledger scored blur caption_words
    """
    names = asked.names or []
    if asked.ledger is not None:
        _values(asked.ledger, names)
        return
    if len(names) > 1:
        fail("without --ledger, name one score", f"wdsflow scores {quote_path(names[0])}")
    _catalog(names[0] if names else None)


def _values(folder: Path, names: list[str]) -> None:
    from wdsflow.filtering.deciding.score_column import LedgerScores
    from wdsflow.filtering.ledger.ledger_row import LedgerError, MissingScore
    from wdsflow.filtering.where.tokens import nearest

    again, hint = Typed.spell("scores", ledger=folder), ""
    try:
        found = LedgerScores(folder)
        if names:
            calls = list(dict.fromkeys(call for name in names for call in found.named(name)))
        else:
            calls = list(found.calls)
        taken: set[str] = set()
        print(f"{folder}: {how_many(len(found.records), 'shard')}")
        if found.left:
            print(f"{how_many(found.left, 'more shard')} not finished: the command of the run resumes it")
        for call in calls:
            print()
            for line in score_lines(found, found.column(call), folder, taken):
                print(line)
    except MissingScore as error:
        close = nearest(error.call, [call.name for call in found.calls])
        fail(str(error), f"{again} {close}" if close else again)
    except LedgerError as error:
        near = nearest_ledger(folder)
        if near is not None and near != folder:
            hint = Typed.spell("scores", ledger=near)
        fail(str(error), hint)


def _catalog(name: str | None) -> None:
    from wdsflow.filtering.where.known_facts import FACTS
    from wdsflow.stages.scores.score_catalog import all_scores

    try:
        known = {**FACTS, **all_scores()}
    except ValueError as error:
        fail(str(error))
    if name is not None:
        if name not in known:
            from wdsflow.filtering.where.tokens import nearest

            close = nearest(name, known)
            fail(
                f"no score is called {name!r}",
                f"did you mean {close}? wdsflow scores {close}" if close else "wdsflow scores",
            )
        _page(known[name])
        return
    from rich import box
    from rich.table import Table

    table = Table("score", "tier", "unit", "range", "meaning", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in sorted(known.values(), key=lambda score: (_tier(score), score.name)):
        needs = f" (needs wdsflow[{','.join(each.needs)}])" if each.needs else ""
        table.add_row(each.name, each.tier, each.unit or each.kind, _range(each), each.meaning() + needs)
    console().print(table)


def _tier(score: "type[Score]") -> int:
    from wdsflow.stages.scores.base import TIERS

    return TIERS.index(score.tier)


def _range(score: "type[Score]") -> str:
    if score.low is None and score.high is None:
        return ""
    low, high = ("" if end is None else f"{end:g}" for end in (score.low, score.high))
    return f"{low} .. {high}"


def _page(score: "type[Score]") -> None:
    print(f"{score.name}: {score.tier} tier, {score.kind}{f' in {score.unit}' if score.unit else ''}", end="")
    print(f", {_range(score)}" if _range(score) else "")
    if score.needs:
        print(f"needs: {install_extras(*score.needs)}")
    print(f"\n{without_markup(inspect.cleandoc(score.__doc__ or ''))}")
    if score.scale_tolerance is not None:
        most, of = score.scale_tolerance
        print(
            f"\ntolerance: at most {most:g}{' ' * bool(of)}{of}, in photographs: large images are decoded at a reduced scale;"
        )
        print("stripes, checks and noise of a few pixels may change more", end="")
        print('; decode="exact" avoids it' if "decode" in {item.name for item in fields(score)} else "")
    for item in fields(score):
        default = "" if item.default is MISSING else f" = {item.default!r}"
        choices = f" ({', '.join(map(repr, get_args(item.type)))})" if get_origin(item.type) is Literal else ""
        print(f"\nsetting {item.name}{default}{choices}")
