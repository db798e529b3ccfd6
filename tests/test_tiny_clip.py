"""The world that the small CLIP learns, and what becomes of the model. scripts/tiny_clip itself trains and judges it."""

import itertools
import json
import random

import pytest
from support.tiny_clip import captions, main, model, recipe, shards, world
from support.tiny_clip.train import TrainingError
from support.tiny_clip.world import Group


def scenes(number, *, held_out=False, seed=0):
    rng = random.Random(seed)
    return [world.choose(rng, held_out=held_out) for _ in range(number)]


def every_single_group():
    return [
        (Group(count, colour, form, place),)
        for count in world.COUNTS
        for colour in world.COLOURS
        for form in world.FORMS
        for place in world.PLACES
    ]


def blobs(image, colour):
    """Return the middles of the connected patches of about this colour."""
    width, height = image.size
    pixels = image.load()
    near = {
        (x, y)
        for x in range(width)
        for y in range(height)
        if all(abs(have - want) <= 19 for have, want in zip(pixels[x, y], world.COLOURS[colour], strict=True))
    }
    found = []
    while near:
        patch, edge = set(), [near.pop()]
        while edge:
            x, y = edge.pop()
            patch.add((x, y))
            around = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} & near
            near -= around
            edge += around
        found.append((sum(x for x, _ in patch) / len(patch), sum(y for _, y in patch) / len(patch)))
    return found


@pytest.mark.sample(6)
@pytest.mark.parametrize("form", world.FORMS)
@pytest.mark.parametrize("place", world.PLACES)
def test_a_picture_shows_as_many_objects_as_its_caption_says_and_where_it_says(form, place):
    rng = random.Random(f"{form} {place}")
    inside = {
        "left": lambda x, y: x < 0.5 and abs(x - 0.5) > abs(y - 0.5),
        "right": lambda x, y: x > 0.5 and abs(x - 0.5) > abs(y - 0.5),
        "top": lambda x, y: y < 0.5 and abs(y - 0.5) > abs(x - 0.5),
        "bottom": lambda x, y: y > 0.5 and abs(y - 0.5) > abs(x - 0.5),
        "middle": lambda x, y: max(abs(x - 0.5), abs(y - 0.5)) < 0.15,
    }[place]
    for count, colour in zip(world.COUNTS, itertools.cycle(("red", "blue", "yellow")), strict=False):
        found = blobs(world.draw((Group(count, colour, form, place),), rng), colour)
        assert len(found) == count
        across, down = (sum(values) / count / world.SIDE for values in zip(*found, strict=True))
        assert inside(across, down), (across, down)


def test_the_first_of_two_groups_is_left_of_the_second_or_above_it():
    rng = random.Random(0)
    for first, second in [(("left", "x"), "right"), (("top", "y"), "bottom")]:
        place, axis = first
        for _ in range(5):
            image = world.draw((Group(3, "red", "star", place), Group(2, "blue", "ring", second)), rng)
            ours, theirs = blobs(image, "red"), blobs(image, "blue")
            assert (len(ours), len(theirs)) == (3, 2)
            index = "xy".index(axis)
            assert max(middle[index] for middle in ours) < min(middle[index] for middle in theirs)


def test_no_caption_fits_two_meanings():
    meant = {}
    for scene in [*every_single_group(), *scenes(1500), *scenes(500, held_out=True)]:
        for caption in captions.phrasings(scene):
            assert meant.setdefault(caption, scene) == scene, caption


def test_a_scene_is_told_in_several_ways():
    one, two = (
        (Group(1, "orange", "ring", "left"),),
        (Group(2, "red", "cross", "top"), Group(1, "blue", "star", "bottom")),
    )
    assert {"an orange ring on the left", "on the left side there is one orange ring"} <= set(captions.phrasings(one))
    told = list(captions.phrasings(two))
    assert {"two red crosses above a blue star", "a drawing of one blue star below two red crosses"} <= set(told)
    assert "a blue star in the lower half and two red crosses in the upper half" in told
    assert len(told) == len(set(told)) == 36
    rng = random.Random(0)
    assert len({captions.caption(two, rng) for _ in range(200)}) > 25


def test_held_out_meanings_are_a_tenth_and_each_word_is_in_both_parts():
    chosen = [world.is_held_out(scene) for scene in every_single_group()]
    assert 0.07 < sum(chosen) / len(chosen) < 0.13
    for held_out in (False, True):
        groups = [group for scene in scenes(600, held_out=held_out) for group in scene]
        assert {group.colour for group in groups} == set(world.COLOURS)
        assert {group.form for group in groups} == set(world.FORMS)
        assert {(group.number, group.place) for group in groups} == {(c, p) for c in world.COUNTS for p in world.PLACES}


@pytest.mark.deep
def test_what_is_held_out_is_not_trained_on_however_it_is_told(tmp_path):
    shards.write_training(tmp_path / "train", shards=2, samples=2000, seed=0)
    shards.write_held_out(tmp_path / "held-out.tar", hundreds=3, seed=0)
    trained = {caption for path in sorted((tmp_path / "train").iterdir()) for _, caption in shards.read(path)}
    held_out = [caption for _, caption in shards.read(tmp_path / "held-out.tar")]
    assert len(held_out) == 300
    assert all(len(set(held_out[start : start + 100])) == 100 for start in (0, 100, 200))
    told = {told: scene for scene in scenes(4000, held_out=True, seed=1) for told in captions.phrasings(scene)}
    assert not trained & (set(held_out) | set(told))


def test_the_same_seed_writes_the_same_shards(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        shards.write_training(tmp_path / name, shards=2, samples=20, seed=seed)
    first, again, other = ((tmp_path / name / "001.tar").read_bytes() for name in "abc")
    assert first == again != other
    assert first != (tmp_path / "a" / "000.tar").read_bytes()


def test_samples_fill_all_batches_of_all_workers():
    plan = recipe.Recipe()
    assert plan.shards % plan.workers == 0
    assert plan.samples % (plan.shards * plan.workers * plan.batch) == 0 or (
        plan.samples // plan.workers % plan.batch == 0 and plan.samples % plan.shards == 0
    )


def test_another_seed_is_another_recipe():
    assert recipe.Recipe().fingerprint == recipe.Recipe().fingerprint != recipe.Recipe(seed=1).fingerprint


def test_openclip_loads_configuration_and_weights_from_the_folder(tmp_path):
    open_clip = pytest.importorskip("open_clip")
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    folder = tmp_path / recipe.MODEL
    folder.mkdir()
    (folder / recipe.CONFIG_FILE).write_text(json.dumps(recipe.CONFIG))
    torch.manual_seed(3)
    made = open_clip.create_model(model.model_name(tmp_path))
    save_file(made.state_dict(), folder / recipe.WEIGHTS_FILE)
    clip = model.load(tmp_path)
    assert not clip.model.training
    assert all(torch.equal(value, made.state_dict()[name]) for name, value in clip.model.state_dict().items())
    picture = clip.preprocess(world.draw(scenes(1)[0], random.Random(0)))
    assert picture.shape == (3, 64, 64)
    length = recipe.CONFIG["model_cfg"]["text_cfg"]["context_length"]
    assert clip.tokenizer(["a red star on the left"]).shape == (1, length)
    told = [max(captions.phrasings(scene), key=lambda caption: len(caption.split())) for scene in scenes(300)]
    whole = open_clip.get_tokenizer(model.model_name(tmp_path), context_length=77)(told)
    assert whole[:, length - 4].any()  # the longest come near
    assert not whole[:, length:].any()  # none is cut


def result(*shares):
    figures = {"image_to_text": list(shares), "text_to_image": list(shares), "matching": 0.9, "others": 0.1}
    return {
        "fingerprint": recipe.Recipe().fingerprint,
        "figures": figures,
        "seconds": {"drawing": 1.0, "training": 2.0},
        "cpu": 4.0,
    }


def lay(folder, content):
    folder.mkdir()
    (folder / main.RESULT).write_text(json.dumps(content))


def test_one_hundred_below_the_bar_fails(tmp_path, capsys):
    assert main.report(tmp_path, result(1.0, 0.9)) == 0
    assert "reaches the bar of 0.9 in every hundred" in capsys.readouterr().out
    assert main.report(tmp_path, result(1.0, 0.89)) == 1
    assert "MISSES the bar" in capsys.readouterr().out


def test_a_model_of_the_same_recipe_is_used_again(tmp_path, capsys):
    folder = tmp_path / "out"
    lay(folder, result(0.97, 0.95))
    assert main.main(["--out", str(folder)]) == 0
    assert "Trained before" in capsys.readouterr().out
    assert main.ensure(folder) == folder
    assert main.found(folder, recipe.Recipe(seed=1)) is None
    assert main.found(tmp_path / "none", recipe.Recipe()) is None


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
