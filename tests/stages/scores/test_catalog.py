import pickle
import re
from dataclasses import fields

import pytest

from tests.distributions import write_distribution
from wdsflow.stages.scores import SCORES, DatasetScore, ScoreError, View, make_score
from wdsflow.stages.scores.image_headers import Bytes
from wdsflow.stages.scores.model.model_score import ModelScore

SETTINGS = {
    "flagged_words": {"words": "spam"},
    "zero_shot": {"labels": "a photo;a drawing"},
    "aesthetic": {"head": __file__},
    "phash_distance": {"file": __file__},
    "embedding_distance": {"file": __file__},
    "text_classify": {"model": "somebody/model"},
    "pos": {"model": __file__, "pretokenized": True},
    "entities": {"model": __file__, "pretokenized": True},
}
# Settings that scores pass on to their models, with values other than the usual ones.
OTHER_SETTINGS = {
    "precision": "fp16",
    "max_tokens": 7,
    "max_words": 9,
    "canvas": 640,
    "weights": __file__,
    "overlong": "refuse",
}
ALL = {name: make_score(name, **SETTINGS.get(name, {})) for name in SCORES}


@pytest.mark.parametrize("score", ALL.values(), ids=ALL)
def test_a_score_is_a_value_that_travels(score):
    again = pickle.loads(pickle.dumps(score))
    assert again == score
    assert hash(again) == hash(score)
    assert again.identity() == score.identity()
    assert score.identity()["name"] == score.name


@pytest.mark.parametrize(
    "name", [name for name, score in ALL.items() if isinstance(score, ModelScore)]
)
def test_the_models_of_a_score_have_its_settings(name):
    own = {field.name for field in fields(SCORES[name])}
    given = {setting: value for setting, value in OTHER_SETTINGS.items() if setting in own}
    found = {}
    score = make_score(name, **SETTINGS.get(name, {}), **given)
    assert isinstance(score, ModelScore)
    for model in score.models():
        of_model = {field.name: getattr(model, field.name) for field in fields(model)}
        found |= {setting: of_model[setting] for setting in given if setting in of_model}
    assert found == given


def test_settings_are_part_of_the_identity():
    assert (
        make_score("near_duplicate").identity()
        != make_score("near_duplicate", distance=5).identity()
    )
    assert make_score("width").identity() != make_score("width", image="png").identity()
    assert make_score("phash").identity()["versions"]["pillow"]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("widht", {}, "did you mean 'width'"),
        ("zzzzzz", {}, "use one of aesthetic, "),
        ("near_duplicate", {"distanc": 3}, "did you mean 'distance'"),
        ("near_duplicate", {"distance": "3"}, "type int"),
        ("near_duplicate", {"distance": 11}, "0 to 10"),
        ("has_pii", {"email": 1}, "type bool"),
        ("width", {"image": ";"}, "names no field"),
        ("caption_length", {"caption": "json:"}, "not of the form"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_nearest_name(name, settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_score(name, **settings)


def test_errors_travel():
    error = pickle.loads(pickle.dumps(ScoreError("no-image", "none")))
    assert (error.slug, error.detail, str(error)) == ("no-image", "none", "no-image: none")


@pytest.mark.parametrize(
    "name", [name for name, score in ALL.items() if isinstance(score, DatasetScore)]
)
def test_one_sample_has_no_score_of_the_data_set(name):
    with pytest.raises(TypeError, match="gather"):
        ALL[name].score(View({}))


@pytest.mark.parametrize(
    ("name", "method", "steps"),
    [
        ("clip_similarity", "score", "call requests, run them, then value"),
        ("semantic_duplicate", "gather", "call requests, run them, then record"),
        ("semantic_duplicate", "value", "call record for each, then resolve"),
    ],
)
def test_a_step_that_a_score_does_not_have_names_those_it_has(name: str, method: str, steps: str):
    arguments = (View({}), ()) if method == "value" else (View({}),)

    with pytest.raises(TypeError, match=f"^{name} .*: {steps}$"):
        getattr(ALL[name], method)(*arguments)


class Mine(Bytes, name="mine"):
    """A score of another distribution."""


def test_scores_of_others_come_by_entry_points(tmp_path, monkeypatch):
    place = f"{__name__}:Mine"
    write_distribution(tmp_path / "right", "right", {"wdsflow.scores": {"mine": place}})
    write_distribution(tmp_path / "wrong", "wrong", {"wdsflow.scores": {"other": place}})
    with pytest.raises(ValueError, match="mine"):
        make_score("mine")
    monkeypatch.syspath_prepend(str(tmp_path / "right"))
    assert isinstance(make_score("mine", image="png"), Mine)
    monkeypatch.syspath_prepend(str(tmp_path / "wrong"))
    with pytest.raises(ValueError, match="not a score of that name"):
        make_score("other")
