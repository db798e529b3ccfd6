"""``wdsflow scores``: the catalog of scores."""

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from wdsflow.cli.shared.terminal import console, fail
from wdsflow.text.install import install_extras

if TYPE_CHECKING:
    from wdsflow.stages.scores.base import Score

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A score; prints its page.", show_default=False)]


def scores(name: Name = None) -> None:
    """List the scores for predicates.

    With SCORE, show its page. The list has tier (the cost: header, text, pixels, model), unit, range, and required
    extras.
    """
    from wdsflow.filtering.where.known_facts import FACTS
    from wdsflow.stages.scores.score_catalog import all_scores

    try:
        known = {**FACTS, **all_scores()}
    except ValueError as error:
        fail(str(error))
    if name is not None:
        if name not in known:
            from wdsflow.filtering.where.language.predicate_errors import nearest

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
    from dataclasses import MISSING, fields

    print(f"{score.name}: {score.tier} tier, {score.kind}{f' in {score.unit}' if score.unit else ''}", end="")
    print(f", {_range(score)}" if _range(score) else "")
    if score.needs:
        print(f"needs: {install_extras(*score.needs)}")
    print(f"\n{inspect.cleandoc(score.__doc__ or '')}")
    if score.scale_tolerance is not None:
        most, of = score.scale_tolerance
        print(
            f"\ntolerance: at most {most:g}{' ' * bool(of)}{of}, in photographs: large images are decoded at a reduced scale;"
        )
        print("stripes, checks and noise of a few pixels may change more", end="")
        print('; decode="exact" avoids it' if "decode" in {item.name for item in fields(score)} else "")
    for item in fields(score):
        default: Any = "" if item.default is MISSING else f" = {item.default!r}"
        choices = f" ({', '.join(map(repr, get_args(item.type)))})" if get_origin(item.type) is Literal else ""
        print(f"\nsetting {item.name}{default}{choices}")
