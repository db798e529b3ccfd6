"""Advice for filter and measure on captions, json values and scores missing in a ledger."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .nearest_paths import nearest_ledger
from .typed import Typed, unused_path

if TYPE_CHECKING:
    from wdsflow.filtering.inputs.caption_search import NoCaptions
    from wdsflow.filtering.inputs.json_names import NoJsonValue

# A predicate for any shards.
_EXAMPLE = "min_side >= 200"
# The options whose texts name scores.
_SCORE_OPTIONS = ("where", "keep", "scores")


def advise_on_captions(error: "NoCaptions", typed: Typed) -> Iterator[str]:
    """Yield where the captions are instead, and the command with it."""
    from wdsflow.stages.scores.sample_fields import CAPTIONS

    if error.nearest is None:
        return
    yield str(error.nearest)
    old, new = error.fields, error.nearest.fields
    texts = _score_texts(typed)
    changed: dict[str, Any] = {name: _with_captions(text, old, new) for name, text in texts.items()}
    is_set_for_all = typed.given.get("caption", CAPTIONS) == old
    if is_set_for_all or changed == texts:
        changed["caption"] = new
    yield typed.command_with(**changed)


def advise_on_json(error: "NoJsonValue", typed: Typed) -> Iterator[str]:
    """Yield the nearest name in the json of samples, and a command that uses it.

    Another command drops the samples without a value.
    """
    yield from _nearest_json_name(error, typed)
    where = typed.given.get("where")
    if not error.is_all and isinstance(where, str):
        call = f"{error.score.name}({error.score.path!r})"
        yield f"if others have it, drop those without: {typed.command_with(where=f'{call} is not None and ({where})')}"


def advise_on_ledger(_: Exception, typed: Typed) -> Iterator[str]:
    """Yield the command with the nearest ledgers, or those that compute the missing scores."""
    option = "embeddings_from" if "embeddings_from" in typed.given else "ledger"
    ledger = Path(typed.given.get(option) or ".")
    nearest = nearest_ledger(ledger)
    if nearest is not None and nearest != ledger and option in typed.given:
        yield f"with the ledgers in {nearest}: {typed.command_with(**{option: nearest})}"
    elif typed.name == "filter" and "ledger" in typed.given:
        yield from measure_again(typed)


def measure_again(typed: Typed, missing: str = "") -> Iterator[str]:
    """Yield the commands that compute the missing scores, and then filter.

    They use the recipe of the ledger, if there is one.

    ``missing``: a name for them; by default all that the predicate needs.
    """
    from wdsflow.filtering.deciding.measure_advice import needed_scores, scores_to_add
    from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
    from wdsflow.joining.join_options import join_names

    ledger: str | None = typed.given.get("ledger")
    where: str | None = typed.given.get("where")
    keep = tuple(typed.given.get("keep") or ())
    if where is None and not keep:
        if ledger is not None:
            return
        where = _EXAMPLE
    recipe = canonical_recipe(Recipe(where=where or "", keep=keep))
    urls = typed.given["urls"]
    addition = None if ledger is None else scores_to_add(urls, Path(ledger), recipe)
    # The new scores are of the same samples, with the fields of the same table.
    join = {name: value for name, value in typed.given.items() if name in join_names()}
    if ledger is not None and addition is not None:
        # The ledger has the samples already, so the scores are added to it.
        urls, scores = addition
        new_ledger = Path(ledger)
        measure = Typed.spell_command("measure", *urls, out=new_ledger, scores=scores, **join)
    else:
        new_ledger = unused_path(Path(ledger or "scored"))
        run_file = Path(ledger or "") / ".wdsflow" / "run.json"
        earlier_recipe = run_file if run_file.is_file() else None
        needed = needed_scores(recipe)
        measure = Typed.spell_command(
            "measure", *urls, out=new_ledger, scores=needed, recipe=earlier_recipe, **join
        )
    yield f"to compute {missing or 'what it needs'}: {measure}"
    yield f"then: {typed.command_with(ledger=new_ledger, where=where)}"


def _nearest_json_name(error: "NoJsonValue", typed: Typed) -> Iterator[str]:
    if error.nearest is None:
        if error.frequent:
            names = ", ".join(f"{name.score}({name.path!r})" for name in error.frequent)
            yield f"samples have {names}"
        yield f"to see the json of some samples: {typed.other_command('inspect', *typed.given.get('urls', ()), sample=3)}"
        return
    yield str(error.nearest)
    old = error.score.name, error.score.path
    new = error.nearest.score, error.nearest.path
    texts = _score_texts(typed)
    changed = {name: _with_json_name(text, old, new) for name, text in texts.items()}
    # Otherwise a text would be compared as a number.
    is_same_score = error.nearest.score == error.score.name
    if is_same_score and changed != texts:
        yield typed.command_with(**changed)


def _score_texts(typed: Typed) -> dict[str, Any]:
    """Return the options that name scores: a text, or a list of texts."""
    return {name: typed.given[name] for name in _SCORE_OPTIONS if name in typed.given}


def _with_json_name(texts: Any, old: tuple[str, str], new: tuple[str, str]) -> Any:
    """Return predicates in which the (score, name) of a value in json is replaced."""
    call = rf"""\b{old[0]}(\(\s*(?:path\s*=\s*)?)(["']){re.escape(old[1])}\2"""
    return _in_all(
        texts,
        lambda text: re.sub(
            call, lambda match: f"{new[0]}{match[1]}{match[2]}{new[1]}{match[2]}", text
        ),
    )


def _with_captions(texts: Any, old: str, new: str) -> Any:
    """Return predicates or scores with the caption fields in their settings replaced."""
    setting = rf"""(?<=caption=)(["']){re.escape(old)}\1"""
    return _in_all(
        texts, lambda text: re.sub(setting, lambda match: f"{match[1]}{new}{match[1]}", text)
    )


def _in_all(texts: Any, change: Callable[[str], str]) -> Any:
    """Change a text, or each of a list."""
    return change(texts) if isinstance(texts, str) else [change(text) for text in texts]
