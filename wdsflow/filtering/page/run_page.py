"""The page of a run, as ``wdsflow report`` writes it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import unreadable_predicate
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.pages import render
from wdsflow.pages.sample_views import SampleView
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many, plain_line

from .choices import Choice, choice
from .near_pictures import near_pictures
from .predicate_parts import PredicateParts, compares_kept, parts_of
from .row_results import repeated_keys_of, results_of, values_of
from .run_commands import run_commands
from .run_facts import MOST_ROWS, SEED, RunFacts, read_run, sampled_rows, scores_of
from .sliders import Slider, SliderPicture, for_script, slider

# Characters of a caption that a picture shows.
_CAPTION = 160


def run_page(folder: str | os.PathLike[str], *, pictures: bool = True) -> str:
    """Return the page of a run.

    It shows the outcomes of samples, the scores, and sliders to choose thresholds.

    Args:
        folder: what ``filter`` or ``measure`` wrote.
        pictures: show samples near each threshold, read from the shards if these are still
            readable.

    Raises:
        LedgerError: the folder holds no run, or a ledger cannot be read.
    """
    facts = read_run(Path(folder))
    kinds = scores_of(facts)
    start = _initial_parts(facts)
    drawn = list(sampled_rows(facts))
    shards = [samples for _, samples in drawn]
    # Scores that compare only kept samples have other values with another predicate.
    calls = [call for call in kinds if not compares_kept(call)]
    numeric = [call for call in calls if kinds[call] == "number"]
    other = [call for call in calls if kinds[call] != "number"]
    keeps = facts.recipe.get("unknown") == "keep"
    sliders = _sliders(shards, numeric, start, unknown_keeps=keeps)
    choices = _choices(shards, other, start)
    start = _with_existing_sliders(start, sliders, choices)
    shown: dict[ScoreCall, list[SliderPicture]] = {}
    views: list[SampleView] = []
    if pictures:
        shown, views = near_pictures(drawn, sliders, start)
    studio = {
        **_sample_data(facts, shards, start),
        "scores": [for_script(score, start, shown.get(score.call, ())) for score in sliders],
        "choices": [score.for_script() for score in choices],
        "pictures": [_picture(sample) for sample in views],
        "command": run_commands(facts),
    }
    scripts = ["page.js"]
    if sliders or choices:
        scripts = ["uPlot.iife.min.js", "page.js", "studio.js"]
    shows_all = sum(len(samples.rows) for samples in shards) == facts.total("samples")
    return render(
        "run.html",
        scripts=tuple(scripts),
        data={"charts": {}, "studio": studio},
        **_facts(facts, Path(folder)),
        sliders=sliders,
        rest=studio["rest"],
        compared=studio["compared"],
        choices=choices,
        sample="" if shows_all else f"{MOST_ROWS:,} samples drawn with seed {SEED}",
        missing=bool(sliders) and pictures and not views,
    )


def _initial_parts(facts: RunFacts) -> PredicateParts:
    """Return the parts of the run's predicate, with which the page starts. Raises LedgerError."""
    try:
        return parts_of(str(facts.recipe.get("where", "")))
    except ExpressionError as error:
        raise unreadable_predicate(facts.folder, error) from None


def _facts(facts: RunFacts, folder: Path) -> dict[str, object]:
    """Return the template variables that need no scores."""
    shards, samples = len(facts.records), facts.total("samples")
    return {
        "title": f"wdsflow {facts.kind}: {folder.absolute().name}",
        "facts": facts,
        "base": _working_folder(facts),
        "about": f"{how_many(shards, 'shard')}, {how_many(samples, 'sample')}",
        "left": max(len(facts.run.get("urls", ())) - shards, 0),
        "where": str(facts.recipe.get("where", "")),
        "flow": list(_flow(facts)),
        "failed": facts.merged("failed").most_common(),
        "damage": [(record.url, text) for record in facts.records for text in record.damage],
    }


def _working_folder(facts: RunFacts) -> str:
    """Return the folder from which relative paths in commands start, "" if there are none."""
    paths = [str(facts.folder)]
    for record in facts.records:
        path = Shard.from_text(record.url).path
        if path is not None:
            paths.append(path)
    return "" if all(map(os.path.isabs, paths)) else str(Path.cwd())


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


def _choices(
    shards: Sequence[SampleTable], calls: Sequence[ScoreCall], start: PredicateParts
) -> list[Choice]:
    """Return the scores that have frequent values, with those that the predicate allows."""
    ticked = dict(start.ticked.values())
    choices = []
    for call in calls:
        shown = choice(values_of(shards, call), call, ticked.get(call, ()))
        if shown is not None:
            choices.append(shown)
    return choices


def _sample_data(
    facts: RunFacts, shards: Sequence[SampleTable], parts: PredicateParts
) -> dict[str, object]:
    """Return the data of samples for the sliders, and the terms without a slider."""
    total = facts.total("samples")
    drawn = sum(len(samples.rows) for samples in shards)
    rest = None
    if parts.rest:
        text = " and ".join(map(str, parts.rest))
        rest = {"text": text, "results": results_of(shards, parts.rest)}
    compared = None
    if parts.compared:
        text = " and ".join(map(str, parts.compared))
        compared = {"text": text, "kept": facts.total("kept")}
    return {
        "rows": sum(len(samples.readable) for samples in shards),
        "total": total,
        "drawn": drawn,
        "unknownKeeps": facts.recipe.get("unknown") == "keep",
        "twins": repeated_keys_of(shards) if drawn == total else [],
        "rest": rest,
        "compared": compared,
    }


def _with_existing_sliders(
    start: PredicateParts, sliders: Sequence[Slider], choices: Sequence[Choice]
) -> PredicateParts:
    """Return the thresholds of the existing sliders.

    A term without checkboxes is one of the rest.
    """
    calls = {score.call for score in sliders}
    low = {call: end for call, end in start.low.items() if call in calls}
    high = {call: end for call, end in start.high.items() if call in calls}
    boxed = {score.call for score in choices if score.ticked}
    rest = tuple(term for term, (call, _) in start.ticked.items() if call not in boxed)
    return replace(start, low=low, high=high, rest=(*start.rest, *rest))


def _flow(facts: RunFacts) -> Iterator[dict[str, object]]:
    """Yield the steps from all samples to those that are kept, as shares of all."""
    total = facts.total("samples")
    remaining = total
    yield _step("samples", total, 0, total, "all")
    if facts.kind == "measure":
        return
    for reason, count in _by_count(facts.merged("dropped")):
        remaining -= count
        yield _step(f"dropped by {reason}", count, remaining, total, "gone")
    for reason, count in _by_count(facts.merged("quarantined")):
        remaining -= count
        yield _step(f"quarantined: {reason}", count, remaining, total, "aside")
    yield _step("kept", facts.total("kept"), 0, total, "good")


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return reasons with their counts, the largest first; those of equal counts by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _step(label: str, count: int, before: int, total: int, kind: str) -> dict[str, object]:
    total = max(total, 1)
    return {
        "label": label,
        "count": count,
        "left": before / total,
        "width": count / total,
        "kind": kind,
    }


def _picture(shown: SampleView) -> dict[str, str]:
    """Return a picture for ``studio.js``."""
    return {
        "image": shown.image,
        "key": plain_line(shown.key),
        "trouble": plain_line(shown.trouble),
        "caption": plain_line(shown.caption[:_CAPTION]),
    }
