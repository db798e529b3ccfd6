"""The data that the small CLIP learns, and how the model turns out.

scripts/tiny_clip itself trains and evaluates it.
"""

import json
import random

import pytest
from support.tiny_clip import captions, main, recipe, shards, world
from support.tiny_clip.train import TrainingError


def scenes(number, *, held_out=False, seed=0):
    rng = random.Random(seed)
    return [world.choose(rng, held_out=held_out) for _ in range(number)]


@pytest.mark.deep
def test_what_is_held_out_is_not_trained_on_however_it_is_told(tmp_path):
    shards.write_training(tmp_path / "train", shards=2, samples=2000, seed=0)
    shards.write_held_out(tmp_path / "held-out.tar", hundreds=3, seed=0)
    trained = {
        caption
        for path in sorted((tmp_path / "train").iterdir())
        for _, caption in shards.read(path)
    }
    held_out = [caption for _, caption in shards.read(tmp_path / "held-out.tar")]
    assert len(held_out) == 300
    assert all(len(set(held_out[start : start + 100])) == 100 for start in (0, 100, 200))
    told = {
        told: scene
        for scene in scenes(4000, held_out=True, seed=1)
        for told in captions.phrasings(scene)
    }
    assert not trained & (set(held_out) | set(told))


def result(*shares):
    figures = {
        "image_to_text": list(shares),
        "text_to_image": list(shares),
        "matching": 0.9,
        "others": 0.1,
    }
    return {
        "fingerprint": recipe.Recipe().fingerprint,
        "figures": figures,
        "seconds": {"drawing": 1.0, "training": 2.0},
        "cpu": 4.0,
    }


def lay(folder, content):
    folder.mkdir()
    (folder / main.RESULT).write_text(json.dumps(content))


def test_a_model_of_the_same_recipe_is_used_again(tmp_path, capsys):
    folder = tmp_path / "out"
    lay(folder, result(0.97, 0.95))
    assert main.main(["--out", str(folder)]) == 0
    assert "Trained before" in capsys.readouterr().out
    assert main.ensure(folder) == folder
    assert main.existing_result(folder, recipe.Recipe(seed=1)) is None
    assert main.existing_result(tmp_path / "none", recipe.Recipe()) is None


def test_a_model_below_the_bar_is_not_handed_out(tmp_path):
    lay(tmp_path / "out", result(0.5))
    with pytest.raises(TrainingError, match="finds 50% of the captions only"):
        main.ensure(tmp_path / "out")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main.main(["--out", str(tmp_path), "--fresh"]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert main.main(["--out", str(tmp_path / "mine.txt")]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "mine"
