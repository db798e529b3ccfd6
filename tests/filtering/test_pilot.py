"""A pilot looks at a part of the samples of a few shards."""

import pytest

from tests.filtering.shards import write_shards
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering import pilot_run
from wdsflow.filtering.pilot_run import explain_plan, measured
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.shards.urls import expand


@pytest.mark.parametrize(("shards", "most", "samples"), [(1, 3, 3), (1, 9, 4), (3, 5, 6), (9, 6, 8), (9, 100, 16)])
def test_samples_of_at_most_four_shards_are_looked_at(tmp_path, monkeypatch, shards, most, samples):
    write_shards(tmp_path / "in", shards=shards, samples=4)
    monkeypatch.setattr(pilot_run, "SAMPLES", most)
    pilot = measured(str(tmp_path / "in"), Recipe(where="width > 1 and not duplicate and caption_words < 0"))
    assert pilot.samples == samples
    assert set(pilot.seconds) == {ScoreCall("width"), ScoreCall("duplicate"), ScoreCall("caption_words")}
    assert all(0 < seconds < 60 for seconds in pilot.seconds.values())
    (unique,) = [term for term in pilot.where.terms if str(term) == "not duplicate"]
    assert pilot.reaching((unique,)) == 1.0


def test_shards_are_taken_from_all_over(tmp_path, monkeypatch):
    write_shards(tmp_path / "in", shards=10, samples=1)
    looked_at, rows = [], pilot_run._rows

    def noted(url, *given, **more):
        looked_at.append(url)
        return rows(url, *given, **more)

    monkeypatch.setattr(pilot_run, "_rows", noted)
    measured(str(tmp_path / "in"), Recipe(where="width > 1"))
    urls = expand([str(tmp_path / "in")], allow_pipe=True).urls
    assert looked_at == [urls[0], urls[2], urls[4], urls[6]]


def test_the_plan_is_shown_with_what_was_measured(tmp_path):
    write_shards(tmp_path / "in", shards=1, samples=4)
    lines = explain_plan(str(tmp_path / "in"), Recipe(where="width > 1 and height < 0")).splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [["1", "width", ">", "1"], ["2", "height", "<", "0"]]
    assert lines[3].startswith("measured on 4 samples; on average ")
    with pytest.raises(ValueError, match="no predicate to explain"):
        measured(str(tmp_path / "in"), Recipe())


def test_scores_by_models_have_no_numbers_and_make_later_ones_bounds(tmp_path):
    write_shards(tmp_path / "in", shards=1, samples=4)
    recipe = Recipe(where="ocr_area > 0.9 and width > 1 and not duplicate")
    lines = explain_plan(str(tmp_path / "in"), recipe).splitlines()
    (model,) = [line for line in lines if "ocr_area" in line]
    assert model.count("not measured") == 2
    assert "at most 100.0% pass all terms" in lines[-2]
    assert lines[-1].startswith("scores by models are not measured here")
