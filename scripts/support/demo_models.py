"""The end of the demonstration: faults that only a model sees, and how scores by models find them."""

import shutil
from pathlib import Path

import numpy as np

from . import planted
from .console import heading, indent, wdsflow
from .tiny_clip import main as tiny_clip
from .tiny_clip import recipe, shards, train
from .tiny_clip.recipe import Recipe

# A third of scripts/tiny_clip's; it is asked for less.
RECIPE = Recipe(epochs=1)
FOLDER = Path("shapes")
SCORE = f"clip_similarity(model='local-dir:{FOLDER}/{recipe.MODEL}', pretrained='')"
SAMPLES, WRONG, PRINTED = 800, 120, 60
# Under ROC.
LEAST_AREA = 0.95
# Of planted ones that go, and of good ones that stay.
LEAST_SHARE = 0.9
URLS = f"{{000..{planted.SHARDS - 1:03d}}}.tar"
Wrong = list[str]


def main(number: int) -> Wrong:
    """Show the steps, the first with this number; return what went wrong."""
    heading(f"{number}. A small CLIP, to judge captions with")
    try:
        provide_model(recipe.FOLDER)
    except train.TrainingError as error:
        return [str(error)]
    heading(f"{number + 1}. Captions that belong to other pictures")
    wrong = mismatched()
    heading(f"{number + 2}. Pictures with text printed across them")
    return wrong + covered(Path("sound"))


def provide_model(trained: Path) -> None:
    """Take the model that scripts/tiny_clip has left, or train one for a shorter time."""
    FOLDER.mkdir()
    result = tiny_clip.found(trained, Recipe())
    if result and tiny_clip.worst(result) >= recipe.BAR:
        print(
            "The one that scripts/tiny_clip has trained on a world of shapes is there already; it is used."
        )
        shutil.copytree(trained / recipe.MODEL, FOLDER / recipe.MODEL)
        return
    print(
        f"Drawing {RECIPE.samples:,} pictures of shapes with captions in .demo/{FOLDER}, and training on them there,"
    )
    print("which takes a minute or two:")
    shards.write_training(
        FOLDER / "train", shards=RECIPE.shards, samples=RECIPE.samples, seed=RECIPE.seed
    )
    train.train(FOLDER, RECIPE)


def mismatched() -> Wrong:
    """Plant shuffled captions, measure, choose a threshold, filter; return what went wrong."""
    planted_keys = planted.shuffled_captions(Path("shuffled"), samples=SAMPLES, wrong=WRONG)
    print(
        f"{SAMPLES} new pictures, of meanings that the model was not trained on, are in .demo/shuffled."
    )
    print(
        f"{WRONG} of them have the caption of another picture. Does the model tell? Every pair gets a score:"
    )
    done = wdsflow("measure", f"shuffled/{URLS}", "-o", "scored", "--scores", SCORE)
    print(indent(done.stdout))
    if done.returncode:
        return [f"wdsflow measure ended with status {done.returncode}: {done.stderr.strip()}"]
    found = planted.ledger(Path("scored"), "clip_similarity")
    values = {key: value for key, value in found.items() if value is not None}
    if len(values) < SAMPLES:
        return [f"only {len(values)} of {SAMPLES} samples have a score"]
    wrong = tells_apart(values, planted_keys)
    least = planted.threshold(np.array(list(values.values())))
    print(
        "Of your own shards you do not know which samples are bad. But most are good, so the middle of all scores is"
    )
    print(
        f"theirs, and three times the usual spread below it is a threshold, here {least}. Nothing is scored again:"
    )
    done = wdsflow(
        "filter",
        f"shuffled/{URLS}",
        "-o",
        "matching",
        "--ledger",
        "scored",
        "--where",
        f"{SCORE} > {least}",
    )
    print(indent(done.stdout))
    if done.returncode:
        return [f"wdsflow filter ended with status {done.returncode}: {done.stderr.strip()}"]
    return wrong + gone(Path("matching"), set(values), planted_keys)


def tells_apart(values: dict[str, float], planted_keys: set[str]) -> Wrong:
    """Show how good and planted pairs were scored; return what falls short."""
    print(
        "The scores are in scored/.wdsflow/ledger, as Parquet. Here o stands for good pairs, x for planted ones:"
    )
    print(indent(planted.histogram(values, planted_keys)))
    area = planted.area_under_roc(
        np.array([value for key, value in values.items() if key not in planted_keys]),
        np.array([values[key] for key in planted_keys]),
    )
    print(
        f"A good pair scores higher than a planted one in {area:.1%} of all cases: the area under ROC is {area:.3f};"
    )
    print(f"expected: at least {LEAST_AREA}.")
    return (
        [] if area >= LEAST_AREA else [f"the area under ROC is {area:.3f}, less than {LEAST_AREA}"]
    )


def covered(source: Path) -> Wrong:
    """Print captions across pictures, and filter them out; return what went wrong."""
    planted_keys = planted.printed_captions(source, Path("printed"), printed=PRINTED)
    everything = planted.keys(Path("printed"))
    print(
        f"The {len(everything)} landscapes of number 1, smaller, are in .demo/printed; {PRINTED} have their caption printed across."
    )
    print(
        "A CLIP rates such pictures high, and one trained on them learns to read. The detector of EasyOCR finds what"
    )
    print("share of each picture is under text:")
    done = wdsflow("filter", f"printed/{URLS}", "-o", "clean", "--where", "ocr_area < 0.1")
    print(indent(done.stdout))
    if done.returncode:
        return [f"wdsflow filter ended with status {done.returncode}: {done.stderr.strip()}"]
    return gone(Path("clean"), everything, planted_keys)


def gone(folder: Path, before: set[str], planted_keys: set[str]) -> Wrong:
    """Say how many of the planted ones went and how many others stayed; return what falls short."""
    left = planted.keys(folder)
    others = before - planted_keys
    went, stayed = len(planted_keys - left), len(others & left)
    print(
        f"Of {len(planted_keys)} planted ones {went} went ({went / len(planted_keys):.1%}),"
        f" of {len(others)} good ones {stayed} stayed ({stayed / len(others):.1%}); expected: at least {LEAST_SHARE:.0%}."
    )
    wrong = []
    if went < LEAST_SHARE * len(planted_keys):
        wrong.append(f"{folder}: only {went} of {len(planted_keys)} planted samples went")
    if stayed < LEAST_SHARE * len(others):
        wrong.append(f"{folder}: only {stayed} of {len(others)} good samples stayed")
    return wrong
