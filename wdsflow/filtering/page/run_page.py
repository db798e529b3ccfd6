"""The page of a run, as ``wdsflow report`` writes it."""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    calls_of,
    read_metadata,
    unreadable_predicate,
)
from wdsflow.filtering.ledger.sample_table import Row, SampleTable
from wdsflow.pages import render
from wdsflow.pages.page_samples import samples_at
from wdsflow.pages.sample_views import SampleView, view
from wdsflow.records.report import OutputsReport
from wdsflow.records.run_folder import Layout, ShardRecord, records_in_order
from wdsflow.shards.shard import Shard
from wdsflow.shards.written_names import compact
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many, plain

from .choices import Choice, choice
from .edges import Floats
from .predicate_parts import Limit, PredicateParts, compares_kept, parts_of
from .row_results import results_of, twins_of, values_of
from .sliders import Slider, for_script, slider

MOST_ROWS = 200_000
SEED = 0
# Samples on each side of a threshold.
FEW = 6
# Pictures of a page, and of one score.
_PICTURES, _OF_ONE = 400, 48


@dataclass
class RunFacts(OutputsReport[ShardRecord]):
    """A run, as its folder describes it."""

    folder: Path
    # The request: "kind", "urls", "recipe" ...
    run: dict[str, Any]
    # In the order of the shards.
    records: tuple[ShardRecord, ...]

    @property
    def outcomes(self) -> Sequence[ShardRecord]:
        """The shards, in order."""
        return self.records

    @property
    def recipe(self) -> dict[str, object]:
        """The recipe, as JSON holds it."""
        recipe = self.run.get("recipe")
        return recipe if isinstance(recipe, dict) else {}

    @property
    def kind(self) -> str:
        """The command: "filter" or "measure"."""
        return str(self.run.get("kind", ""))


def read_run(folder: Path) -> RunFacts:
    """Return the facts of a run. Raises LedgerError if no run wrote to the folder, or if it has finished no shard."""
    layout = Layout(folder)
    try:
        run = json.loads(layout.run_file.read_bytes())
        records = tuple(records_in_order(layout))
    except (OSError, ValueError):
        raise LedgerError(
            f"{folder} is not the folder of a run: give the one that filter or measure wrote"
        ) from None
    if not isinstance(run, dict):
        raise LedgerError(f"{layout.run_file} is damaged: it does not describe a run")
    if not records:
        raise LedgerError(
            f"{folder} holds a run that has finished no shard: run the command again to resume it"
        )
    return RunFacts(folder, run, records)


def scores_of(facts: RunFacts) -> dict[ScoreCall, str]:
    """Return the scores that all ledgers of a run have, with their kinds. Raises LedgerError."""
    layout = Layout(facts.folder)
    common: dict[ScoreCall, str] | None = None
    for record in facts.records:
        stored = calls_of(read_metadata(layout.ledger(record.name)))
        if common is None:
            common = stored
        else:
            common = {call: kind for call, kind in common.items() if call in stored}
    return common or {}


def sampled_rows(
    facts: RunFacts, most: int = MOST_ROWS
) -> Iterator[tuple[ShardRecord, SampleTable]]:
    """Yield the samples of each shard: all of them, or ``most`` that are drawn by a fixed seed. Raises LedgerError."""
    layout = Layout(facts.folder)
    total = facts.total("samples")
    drawn = (
        np.sort(np.random.default_rng(SEED).choice(total, most, replace=False))
        if total > most
        else None
    )
    first = 0
    for record in facts.records:
        only = None
        if drawn is not None:
            low, high = np.searchsorted(drawn, (first, first + record.samples))
            only = (drawn[low:high] - first).tolist()
        first += record.samples
        yield record, read_ledger(layout.ledger(record.name), only)[0]


def near_samples(slider: Slider, start: PredicateParts, most: int) -> list[int]:
    """Return rows in the order of the score, at most ``most`` or those at its ends and cuts; rows without a value do not count."""
    with_value = np.flatnonzero(slider.low >= 0)
    lows, highs = slider.lows, slider.highs
    by_low = with_value[np.argsort(lows[with_value], kind="stable")]
    by_high = with_value[np.argsort(highs[with_value], kind="stable")]
    chosen = {*by_low[:FEW].tolist(), *by_high[-FEW:].tolist()}
    for limits, order, values in ((start.low, by_low, lows), (start.high, by_high, highs)):
        if (limit := limits.get(slider.call)) is not None:
            chosen |= _around(order, values[order], limit, above=limits is start.low)
    room = most - len(chosen)
    if room > 0:
        at = np.unique(np.linspace(0, len(by_low) - 1, min(room, len(by_low))).astype(np.int64))
        chosen.update(by_low[at].tolist())
    return [row for row in by_low.tolist() if row in chosen]


def _around(order: NDArray[np.int64], values: Floats, limit: Limit, *, above: bool) -> set[int]:
    """Return the rows on both sides of a cut. ``above``: values above it are kept, so that a strict cut is dropped."""
    at = int(np.searchsorted(values, limit.value, "right" if limit.strict == above else "left"))
    return set(order[max(at - FEW, 0) : at + FEW].tolist())


def run_page(folder: str | os.PathLike[str], *, pictures: bool = True) -> str:
    """Return the page of a run: the outcomes of its samples, its scores, and sliders to choose thresholds.

    Args:
        folder: what ``filter`` or ``measure`` wrote.
        pictures: show samples near each threshold, read from the shards if these are still readable.

    Raises:
        LedgerError: the folder holds no run, or a ledger cannot be read.
    """
    facts = read_run(Path(folder))
    kinds = scores_of(facts)
    try:
        start = parts_of(str(facts.recipe.get("where", "")))
    except ExpressionError as error:
        raise unreadable_predicate(facts.folder, error) from None
    drawn = list(sampled_rows(facts))
    shards = [samples for _, samples in drawn]
    shows_all = sum(len(samples.rows) for samples in shards) == facts.total("samples")
    numeric = [call for call, kind in kinds.items() if kind == "number" and not compares_kept(call)]
    keeps = facts.recipe.get("unknown") == "keep"
    sliders = _sliders(shards, numeric, start, unknown_keeps=keeps)
    named = [call for call, kind in kinds.items() if kind != "number" and not compares_kept(call)]
    ticked = dict(start.ticked.values())
    choices = []
    for call in named:
        shown_choice = choice(values_of(shards, call), call, ticked.get(call, ()))
        if shown_choice is not None:
            choices.append(shown_choice)
    start = _only(start, sliders, choices)
    shown, views = _pictures(drawn, sliders, start) if pictures else ({}, [])
    studio = {
        **_judged(facts, shards, start),
        "scores": [for_script(score, start, shown.get(score.call, ())) for score in sliders],
        "choices": [score.for_script() for score in choices],
        "pictures": [_for_script(sample) for sample in views],
        "command": _command(facts),
    }
    paths = [
        str(facts.folder),
        *(path for record in facts.records if (path := Shard.stored(record.url).path) is not None),
    ]
    return render(
        "run.html",
        scripts=("uPlot.iife.min.js", "page.js", "studio.js")
        if sliders or choices
        else ("page.js",),
        data={"charts": {}, "studio": studio},
        title=f"wdsflow {facts.kind}: {Path(folder).absolute().name}",
        facts=facts,
        # Of relative paths in commands.
        base="" if all(map(os.path.isabs, paths)) else str(Path.cwd()),
        about=f"{how_many(len(facts.records), 'shard')}, {how_many(facts.total('samples'), 'sample')}",
        left=max(len(facts.run.get("urls", ())) - len(facts.records), 0),
        where=str(facts.recipe.get("where", "")),
        flow=[*_flow(facts)],
        failed=facts.merged("failed").most_common(),
        sliders=sliders,
        rest=studio["rest"],
        compared=studio["compared"],
        choices=choices,
        sample="" if shows_all else f"{MOST_ROWS:,} samples drawn with seed {SEED}",
        missing=bool(sliders) and pictures and not views,
        damage=[(record.url, text) for record in facts.records for text in record.damage],
    )


def _sliders(
    shards: Sequence[SampleTable],
    calls: Sequence[ScoreCall],
    start: PredicateParts,
    *,
    unknown_keeps: bool,
) -> list[Slider]:
    """Return the scores that have a finite value."""
    sliders = []
    for call in calls:
        values = values_of(shards, call)
        shown = slider(values, call, start, scores=len(calls), unknown_keeps=unknown_keeps)
        if shown is not None:
            sliders.append(shown)
    return sliders


def _judged(
    facts: RunFacts, shards: Sequence[SampleTable], parts: PredicateParts
) -> dict[str, object]:
    """Return the data of samples for the sliders, and the terms without a slider."""
    total, drawn = facts.total("samples"), sum(len(samples.rows) for samples in shards)
    rest = None
    if parts.rest:
        rest = {
            "text": " and ".join(map(str, parts.rest)),
            "results": results_of(shards, parts.rest),
        }
    compared = {"text": " and ".join(map(str, parts.compared)), "kept": facts.total("kept")}
    return {
        "rows": sum(len(samples.readable) for samples in shards),
        "total": total,
        "drawn": drawn,
        "unknownKeeps": facts.recipe.get("unknown") == "keep",
        "twins": twins_of(shards) if drawn == total else [],
        "rest": rest,
        "compared": compared if parts.compared else None,
    }


def _only(
    start: PredicateParts, sliders: Sequence[Slider], choices: Sequence[Choice]
) -> PredicateParts:
    """Return the thresholds of the existing sliders; a term without checkboxes is one of the rest."""
    calls = {score.call for score in sliders}
    low = {call: end for call, end in start.low.items() if call in calls}
    high = {call: end for call, end in start.high.items() if call in calls}
    boxed = {score.call for score in choices if score.ticked}
    rest = tuple(term for term, (call, _) in start.ticked.items() if call not in boxed)
    return replace(start, low=low, high=high, rest=(*start.rest, *rest))


def _flow(facts: RunFacts) -> Iterator[dict[str, object]]:
    """Yield the steps from all samples to those that are kept, as shares of all."""
    total = facts.total("samples")
    left = total
    yield _step("samples", total, 0, total, "all")
    if facts.kind == "measure":
        return
    for kind, verb, counts in (
        ("gone", "dropped by ", facts.merged("dropped")),
        ("aside", "quarantined: ", facts.merged("quarantined")),
    ):
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            left -= count
            yield _step(f"{verb}{reason}", count, left, total, kind)
    yield _step("kept", facts.total("kept"), 0, total, "good")


def _step(label: str, count: int, before: int, total: int, kind: str) -> dict[str, object]:
    total = max(total, 1)
    return {
        "label": label,
        "count": count,
        "left": before / total,
        "width": count / total,
        "kind": kind,
    }


def _pictures(
    drawn: Sequence[tuple[ShardRecord, SampleTable]],
    sliders: Sequence[Slider],
    start: PredicateParts,
) -> tuple[dict[ScoreCall, list[tuple[int, int, float]]], list[SampleView]]:
    """Return samples of each score in its order, (row, picture, value), and their pictures: see ``near_samples``."""
    of_one = min(_OF_ONE, _PICTURES // max(len(sliders), 1))
    chosen: dict[ScoreCall, list[int]] = {}
    for score in sliders:
        chosen[score.call] = near_samples(score, start, of_one)
    numbers = sorted({row for listed in chosen.values() for row in listed})
    rows: list[tuple[str, Row]] = []
    for record, samples in drawn:
        rows += [(record.url, row) for row in samples.readable]
    by_url: dict[str, dict[int, int]] = {}
    for number in numbers:
        url, row = rows[number]
        by_url.setdefault(url, {})[row.start] = number
    views: list[SampleView] = []
    picture: dict[int, int] = {}
    for url, starts in by_url.items():
        for begin, sample in samples_at(Shard.stored(url), starts):
            # Otherwise the shard has changed.
            if sample.key == rows[starts[begin]][1].key:
                picture[starts[begin]] = len(views)
                views.append(view(sample))
    shown = {}
    for score in sliders:
        listed = [number for number in chosen[score.call] if number in picture]
        shown[score.call] = [
            (number, picture[number], float(score.lows[number])) for number in listed
        ]
    return shown, views


def _for_script(shown: SampleView) -> dict[str, str]:
    texts = {"key": shown.key, "trouble": shown.trouble, "caption": shown.caption[:160]}
    return {"image": shown.image, **{name: plain(text) for name, text in texts.items()}}


def _command(facts: RunFacts) -> dict[str, str]:
    """Return the command that cuts the same shards by another predicate, and the one that computes missing scores."""
    shards = [Shard.stored(record.url) for record in facts.records]
    urls = " ".join(quote_path(url) for url in compact(shards))
    if any(shard.is_pipe for shard in shards):
        urls += " --allow-pipe"
    unknown = str(facts.recipe.get("unknown", "quarantine"))
    more = "" if unknown == "quarantine" else f" --unknown {shlex.quote(unknown)}"
    recipe = quote_path(str(Layout(facts.folder).run_file))
    return {
        "filter": f"wdsflow filter {urls} -o {_free(facts, 'kept')} --ledger {quote_path(str(facts.folder))}{more} --where ",
        "measure": f"wdsflow measure {urls} -o {_free(facts, 'scores')} --recipe {recipe}",
    }


def _free(facts: RunFacts, suffix: str) -> str:
    """Return the name of a folder that does not exist yet, for a shell."""
    folder = Path(f"{facts.folder}-{suffix}")
    number = 1
    while folder.exists():
        number += 1
        folder = Path(f"{facts.folder}-{suffix}{number}")
    return quote_path(str(folder))
