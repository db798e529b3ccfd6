"""The end of the demonstration: faults that only a model sees.

Shows how scores by models find them.
"""

import shutil
from pathlib import Path

import numpy as np

from . import planted
from .console import heading, indent, wdsflow
from .tiny_clip import main as tiny_clip
from .tiny_clip import recipe, shards, train
from .tiny_clip.recipe import Recipe

# A third of the epochs of scripts/tiny_clip: less is expected of this model.
RECIPE = Recipe(epochs=1)
FOLDER = Path("shapes")
SCORE = f"clip_similarity(model='local-dir:{FOLDER}/{recipe.MODEL}', pretrained='')"
# Pairs, and those of them with the caption of another picture.
SAMPLES, MISMATCHED = 800, 120
# Pictures with a printed caption.
PRINTED = 60
# The area under the ROC curve that is expected at least.
LEAST_AREA = 0.95
# The share of planted samples that a filter has to drop, and of good ones that it has to keep.
LEAST_SHARE = 0.9
URLS = f"{{000..{planted.SHARDS - 1:03d}}}.tar"


def main(number: int) -> list[str]:
    """Show the steps, the first with this number; return what went wrong."""
    heading(f"{number}. A small CLIP, to judge captions with")
    try:
        provide_model(recipe.FOLDER)
    except train.TrainingError as error:
        return [str(error)]
    heading(f"{number + 1}. Captions that belong to other pictures")
    problems = filter_mismatched()
    heading(f"{number + 2}. Pictures with text printed across them")
    problems += filter_printed(Path("sound"))
    return problems


def provide_model(trained: Path) -> None:
    """Take the model that scripts/tiny_clip has left, or train one for a shorter time."""
    FOLDER.mkdir()
    result = tiny_clip.existing_result(trained, Recipe())
    if result and tiny_clip.worst_accuracy(result) >= recipe.BAR:
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


def filter_mismatched() -> list[str]:
    """Plant shuffled captions, measure, choose a threshold, filter; return what went wrong."""
    planted_keys = planted.shuffled_captions(Path("shuffled"), samples=SAMPLES, wrong=MISMATCHED)
    print(
        f"{SAMPLES} new pictures, of meanings that the model was not trained on, are in .demo/shuffled."
    )
    print(
        f"{MISMATCHED} of them have the caption of another picture. Does the model tell? Every pair gets a score:"
    )
    done = wdsflow("measure", f"shuffled/{URLS}", "-o", "scored", "--scores", SCORE)
    print(indent(done.stdout))
    if done.returncode:
        return [f"wdsflow measure ended with status {done.returncode}: {done.stderr.strip()}"]
    scores = planted.ledger(Path("scored"), "clip_similarity")
    values = {key: value for key, value in scores.items() if value is not None}
    if len(values) < SAMPLES:
        return [f"only {len(values)} of {SAMPLES} samples have a score"]
    problems = show_scores(values, planted_keys)
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
    return problems + show_kept(Path("matching"), set(values), planted_keys)


def show_scores(values: dict[str, float], planted_keys: set[str]) -> list[str]:
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
    if area < LEAST_AREA:
        return [f"the area under ROC is {area:.3f}, less than {LEAST_AREA}"]
    return []


def filter_printed(source: Path) -> list[str]:
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
    return show_kept(Path("clean"), everything, planted_keys)


def show_kept(folder: Path, before: set[str], planted_keys: set[str]) -> list[str]:
    """Print how many planted samples were dropped and how many good ones were kept.

    Returns the shares that are too small, as messages.
    """
    after = planted.keys(folder)
    good_keys = before - planted_keys
    dropped = len(planted_keys - after)
    kept = len(good_keys & after)
    print(
        f"Of {len(planted_keys)} planted ones {dropped} were dropped ({dropped / len(planted_keys):.1%}),"
        f" of {len(good_keys)} good ones {kept} were kept ({kept / len(good_keys):.1%});"
        f" expected: at least {LEAST_SHARE:.0%}."
    )
    problems = []
    if dropped < LEAST_SHARE * len(planted_keys):
        problems.append(
            f"{folder}: only {dropped} of {len(planted_keys)} planted samples were dropped"
        )
    if kept < LEAST_SHARE * len(good_keys):
        problems.append(f"{folder}: only {kept} of {len(good_keys)} good samples were kept")
    return problems
