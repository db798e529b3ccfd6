"""The demonstration shows what it says it shows. OpenCLIP's own word for it is in scripts/demo itself."""

import io
import json
import random

import numpy as np
import pytest
from PIL import Image
from support import demo, demo_models, faults, planted, scenes
from support.tiny_clip import captions, recipe, world
from support.tiny_clip import main as tiny_clip

from wdsflow.validate import check


@pytest.fixture(scope="module")
def drawn():
    return scenes.draw(demo.SAMPLES)


@pytest.mark.parametrize("scenario", demo.SCENARIOS, ids=lambda scenario: scenario.title)
def test_a_set_of_the_demonstration_gets_the_outcome_that_is_announced(scenario, drawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario.make(tmp_path / scenario.name, drawn)
    arguments = scenario.training if scenario.with_arguments else None
    report = check(f"{scenario.name}/{demo.URLS}", ["open-clip-3.3"], arguments=arguments, jobs=1)
    assert report.verdicts[0].outcome.upper() == scenario.outcome
    assert report.ok == (scenario.status == 0)


def test_the_advice_on_the_json_shards_is_the_command_that_the_demonstration_runs(drawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo.SCENARIOS[1].make(tmp_path / "json", drawn)
    report = check(f"json/{demo.URLS}", ["open-clip-3.3"], jobs=1)
    assert report.advice[0].command == f"wdsflow repair 'json/{demo.URLS}' -o repaired --caption json:description"
    assert report.advice[0].regains == demo.SAMPLES


def test_the_same_seed_draws_the_same_scenes(drawn):
    assert scenes.draw(3) == drawn[:3]


def test_planted_captions_are_those_of_other_pictures_and_mean_something_else(tmp_path):
    keys = planted.shuffled_captions(tmp_path, samples=120, wrong=40)
    rng = random.Random("shuffled 0")
    drawn = [world.choose(rng, held_out=True) for _ in range(120)]
    told = {key: text for shard in sorted(tmp_path.iterdir()) for key, _, text in planted.contents(shard)}
    fitting = {key for key, text in told.items() if text in set(captions.phrasings(drawn[int(key)]))}
    assert len(keys) == 40
    assert fitting == set(told) - keys
    meant = {text: scene for scene in drawn for text in captions.phrasings(scene)}
    assert {meant[told[key]] for key in keys} == {drawn[int(key)] for key in keys}


def test_captions_are_printed_across_the_planted_pictures_and_no_other(drawn, tmp_path):
    faults.sound(tmp_path / "in", drawn[:20])
    keys = planted.printed_captions(tmp_path / "in", tmp_path / "out", printed=5)
    assert len(keys) == 5
    assert planted.keys(tmp_path / "out") == planted.keys(tmp_path / "in")
    assert planted.printed_captions(tmp_path / "in", tmp_path / "clean", printed=0) == set()
    changed = set()
    for shard in sorted((tmp_path / "out").iterdir()):
        clean = planted.contents(tmp_path / "clean" / shard.name)
        for (key, picture, text), (_, before, _) in zip(planted.contents(shard), clean, strict=True):
            assert text == drawn[int(key)].caption
            if picture != before:
                changed.add(key)
                printed, plain = (
                    np.asarray(Image.open(io.BytesIO(each)).convert("L"), float) for each in (picture, before)
                )
                assert (abs(printed - plain) > 40).mean() > 0.1
    assert changed == keys


def test_the_area_under_roc_counts_pairs_and_half_of_each_tie():
    assert planted.area_under_roc(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == 3.5 / 4
    assert planted.area_under_roc(np.array([1.0]), np.array([2.0])) == 0


def test_a_threshold_lies_below_the_heap_of_most_scores_wherever_the_others_lie():
    rng = np.random.default_rng(0)
    good = rng.normal(0.9, 0.03, 850)
    for middle in (0.0, 0.5):
        least = planted.threshold(np.concatenate([good, rng.normal(middle, 0.05, 150)]))
        assert 0.75 < least < 0.83


def test_the_histogram_counts_each_sample_once():
    values = {"a": -0.05, "b": 0.0, "c": 0.15, "d": 0.19}
    assert planted.histogram(values, {"a", "d"}).splitlines()[1:] == [
        "-0.1 to  0.0     0       1  x",
        " 0.0 to  0.1     1       0  o",
        " 0.1 to  0.2     1       1  ox",
    ]


def test_a_model_that_cannot_tell_good_pairs_from_planted_ones_fails_the_demonstration(capsys):
    values = {f"{number:03d}": (number * 37 % 101) / 101 for number in range(101)}
    wrong = demo_models.tells_apart(values, {f"{number:03d}" for number in range(20)})
    assert len(wrong) == 1
    assert "less than 0.95" in wrong[0]
    sure = {key: value + 1 for key, value in values.items()} | {"planted": 0.5}
    assert demo_models.tells_apart(sure, {"planted"}) == []
    assert "area under ROC is 1.000" in capsys.readouterr().out


def test_planted_samples_that_stay_and_good_ones_that_go_fail_the_demonstration(tmp_path):
    planted.shuffled_captions(tmp_path, samples=40, wrong=0)
    kept = planted.keys(tmp_path)
    gone = {f"gone {number}" for number in range(10)}
    assert demo_models.gone(tmp_path, kept | gone, gone) == []
    assert demo_models.gone(tmp_path, kept | gone, gone | {"000000"}) == []  # 10 of 11
    assert "only 10 of 12 planted" in demo_models.gone(tmp_path, kept | gone, gone | {"000000", "000001"})[0]
    assert "only 40 of 49 good" in demo_models.gone(tmp_path, kept | gone, {"gone 0"})[0]


def test_a_model_that_was_trained_before_is_taken(tmp_path, monkeypatch, capsys):
    trained = tmp_path / "trained"
    (trained / recipe.MODEL).mkdir(parents=True)
    (trained / recipe.MODEL / recipe.WEIGHTS_FILE).write_bytes(b"weights")
    figures = {"image_to_text": [0.95], "text_to_image": [0.95], "matching": 0.9, "others": 0.1}
    (trained / tiny_clip.RESULT).write_text(
        json.dumps({"fingerprint": recipe.Recipe().fingerprint, "figures": figures, "seconds": {}, "cpu": 0})
    )
    monkeypatch.chdir(tmp_path)
    demo_models.provide_model(trained)
    assert (tmp_path / "shapes" / recipe.MODEL / recipe.WEIGHTS_FILE).read_bytes() == b"weights"
    assert "it is used" in capsys.readouterr().out
