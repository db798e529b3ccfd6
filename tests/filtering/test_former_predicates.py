"""Predicates in the syntax of former versions are refused.

They occur in recipes and in folders of runs. The message shows what to write instead.
"""

import json
from pathlib import Path

import pytest

from tests.filtering.commands import run
from tests.filtering.shards import write_shards
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.filtering.recipe.recipe_file import RecipeError, merged_recipe

FORMER = [
    ("width between 70 and 900 and blur > 1", "write a chain of comparisons"),
    ("width > 1 && blur > 1", "write and"),
    ("blur is null or width > 1", "write `blur is None`"),
    ("bytes > 120KiB", "write 120 * KiB"),
    ("format = 'jpeg'", "write =="),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose ledger lacks the blur of some samples."""
    folder = tmp_path_factory.mktemp("former")
    source = write_shards(folder / "in", shards=1, samples=8)
    filter_shards(
        source, folder / "kept", Recipe(where="width >= 70 and blur > 1"), RunOptions(jobs=0)
    )
    return folder / "kept"


@pytest.mark.parametrize(("where", "hint"), FORMER)
def test_a_recipe_says_what_to_write_instead(tmp_path, where, hint):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"where": where}))
    with pytest.raises(RecipeError) as error:
        merged_recipe(path, {})
    assert str(path) in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize(("where", "hint"), FORMER)
@pytest.mark.parametrize("words", [["scores", "blur", "--ledger"], ["report"]], ids=" ".join)
def test_a_run_is_not_guessed_at_and_its_scores_stay_of_use(kept, monkeypatch, words, where, hint):
    monkeypatch.chdir(kept.parent)
    run_file = kept / ".wdsflow" / "run.json"
    recorded = json.loads(run_file.read_text())
    run_file.write_text(json.dumps({**recorded, "recipe": {**recorded["recipe"], "where": where}}))
    done = run(*words, "kept")
    assert done.status == 2
    assert "the predicate of the run in kept cannot be read here" in done.err
    assert hint in done.err
    assert "wdsflow filter SHARDS -o NEW --ledger kept --where" in done.err
