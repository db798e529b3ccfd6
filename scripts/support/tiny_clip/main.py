"""`scripts/tiny_clip`: draws the data, and trains and evaluates a model.

It can also print the figures of the existing model.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import shards
from .evaluate import Figures, evaluate
from .model import load, model_name
from .recipe import BAR, FOLDER, HELD_OUT, HUNDREDS, SECONDS, Recipe
from .train import TrainingError, train

# A folder with this file is ours: it may be replaced.
RESULT = "result.json"


def main(argv: list[str]) -> int:
    """Return 0 if the model that is in the folder in the end reaches the bar."""
    parser = argparse.ArgumentParser(
        prog="scripts/tiny_clip", description="Trains a small CLIP on a world of shapes."
    )
    parser.add_argument(
        "--out", type=Path, default=FOLDER, metavar="FOLDER", help="default: .tiny_clip"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the pictures, the weights and the order; default: 0"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="train even if a model of this recipe is there"
    )
    arguments = parser.parse_args(argv)
    # An exception, so that what was begun is cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder, recipe = arguments.out.resolve(), Recipe(seed=arguments.seed)
    try:
        result = None if arguments.fresh else existing_result(folder, recipe)
        if result:
            print(
                f"Trained before, by the same recipe; --fresh trains it again. It lies in {folder}."
            )
        else:
            result = build(folder, recipe)
    except (TrainingError, FileExistsError) as error:
        print(f"scripts/tiny_clip: {error}", file=sys.stderr)
        return 1
    return report(folder, result)


def ensure(folder: Path = FOLDER) -> Path:
    """Return the folder of a model that reaches the bar; train it first where it is not there yet.

    Raises TrainingError if it falls short, FileExistsError if something else is there.
    """
    recipe = Recipe()
    result = existing_result(folder, recipe) or build(folder, recipe)
    if worst_accuracy(result) < BAR:
        message = f"the model in {folder} finds {worst_accuracy(result):.0%} of the captions only; {BAR:.0%} are asked for"
        raise TrainingError(message)
    return folder


def existing_result(folder: Path, recipe: Recipe) -> dict[str, Any] | None:
    """Return the result that is in a folder, if it is of this recipe."""
    try:
        result: dict[str, Any] = json.loads((folder / RESULT).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return result if result.get("fingerprint") == recipe.fingerprint else None


def build(folder: Path, recipe: Recipe) -> dict[str, Any]:
    """Draw, train and judge next to the folder, and put everything in its place in one step."""
    is_ours = (folder / RESULT).is_file()
    is_taken = folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
    if is_taken and not is_ours:
        message = f"{folder} holds something else; nothing was touched"
        raise FileExistsError(message)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    work.chmod(0o755)
    try:
        result = _build(work, recipe)
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return result


def report(folder: Path, result: dict[str, Any]) -> int:
    """Print the figures; return 0 if they reach the bar."""
    figures = Figures(**result["figures"])
    count = len(figures.image_to_text)
    print(
        f"{count} times 100 held-out pictures and their captions, no two alike in meaning; top-1 among the 100:"
    )
    for title, shares in (
        ("image to text", figures.image_to_text),
        ("text to image", figures.text_to_image),
    ):
        print(
            f"  {title}  mean {sum(shares) / count:.3f}, least {min(shares):.2f}, most {max(shares):.2f}"
        )
    print(
        f"  cosine of picture and caption: its own {figures.matching:.2f}, any other {figures.others:.2f}"
    )
    seconds = result["seconds"]
    taken = ", ".join(f"{step} {value:.0f} s" for step, value in seconds.items())
    print(
        f"  seconds: {sum(seconds.values()):.0f} ({taken}); of processor time in training {result['cpu']:.0f}"
    )
    if sum(seconds.values()) > SECONDS:
        print(
            f"  That is more than {SECONDS} s, which two free cores stay below by far. Was the machine busy?"
        )
    print(f"To load it: open_clip.create_model_and_transforms({model_name(folder)!r})")
    if worst_accuracy(result) >= BAR:
        print(f"Image to text reaches the bar of {BAR:g} in every hundred.")
        return 0
    print(f"Image to text does NOT reach the bar of {BAR:g} in every hundred.")
    return 1


def worst_accuracy(result: dict[str, Any]) -> float:
    """Return the least image-to-text accuracy of all hundreds."""
    return min(Figures(**result["figures"]).image_to_text)


def _build(work: Path, recipe: Recipe) -> dict[str, Any]:
    watch = Stopwatch()
    print(
        f"Drawing {recipe.samples} pictures of shapes with captions to train on, and {HUNDREDS * 100} held out. What those"
    )
    print(
        "say in all, so many of such a colour and form in such a place, is said of no training picture; each word is:"
    )
    shards.write_training(
        work / "train", shards=recipe.shards, samples=recipe.samples, seed=recipe.seed
    )
    shards.write_held_out(work / HELD_OUT, hundreds=HUNDREDS, seed=recipe.seed)
    for _, caption in shards.read(work / HELD_OUT)[:3]:
        print(f"  {caption}")
    watch.lap("drawing")
    train(work, recipe)
    watch.lap("training")
    figures = evaluate(load(work), work / HELD_OUT)
    watch.lap("judging")
    # The checkpoint holds the optimizer's state, too; the weights are in model/.
    shutil.rmtree(work / "logs")
    result = {
        "fingerprint": recipe.fingerprint,
        "seed": recipe.seed,
        "figures": figures._asdict(),
        "seconds": watch.laps,
        "cpu": os.times().children_user + os.times().children_system,
    }
    (work / RESULT).write_text(json.dumps(result, indent=2) + "\n")
    return result


class Stopwatch:
    """How long each step takes, in seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._start = time.monotonic()

    def lap(self, step: str) -> None:
        """End a step, and begin the next."""
        now = time.monotonic()
        self.laps[step] = now - self._start
        self._start = now
