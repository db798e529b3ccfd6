"""Decoded images are freed before the next one is decoded, unless later scores use them."""

import weakref
from pathlib import Path

import pytest

from tests.filtering.shards import write_shards
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.stages.scores.picture import Picture

HERE = RunOptions(jobs=0)
SAMPLES = 40


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many decoded images there were when each was decoded."""
    counts: list[int] = []
    pictures: weakref.WeakSet[Picture] = weakref.WeakSet()
    begin = Picture.__init__

    def counted(self: Picture, decoded: object) -> None:
        begin(self, decoded)  # type: ignore[arg-type]
        pictures.add(self)
        counts.append(len(pictures))

    monkeypatch.setattr(Picture, "__init__", counted)
    return counts


def test_a_filter_by_one_score_of_pixels_holds_one_image(tmp_path: Path, alive: list[int]) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=SAMPLES)
    recipe = Recipe(where="width > 1 and caption_words > 0 and blur >= 0", scores=("blur",))
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    assert report.total("kept") == len(alive) == SAMPLES
    assert max(alive) == 1


def test_scores_of_pixels_share_an_image_that_is_freed_with_its_sample(
    tmp_path: Path, alive: list[int]
) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=SAMPLES)
    measure_shards(source, tmp_path / "out", Recipe(scores=("blur", "entropy")), HERE)
    assert len(alive) == SAMPLES
    assert max(alive) == 1


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(where="blur >= 0 and entropy >= 0"),
        Recipe(where="blur >= 0", scores=("entropy",)),
        Recipe(where="blur >= 0", resize="32"),
        Recipe(where="blur >= 0 and not near_duplicate"),
    ],
    ids=["two scores", "another score", "smaller images", "comparison"],
)
def test_an_image_that_is_used_again_is_decoded_once(
    tmp_path: Path, alive: list[int], recipe: Recipe
) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=SAMPLES)
    filter_shards(source, tmp_path / "out", recipe, HERE)
    assert len(alive) == SAMPLES
