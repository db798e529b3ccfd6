"""Captions and pictures of many sizes through the runner.

Measures how much of the computation is padding.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from wdsflow.stages.scores.model.model import Item, Model, Output

_WORDS = "a an old red green small stone wooden house river bridge street market boat tree under near in the sun".split()
# As many samples in a window as a worker puts together.
_SAMPLES, _WINDOW = 4096, 512


@dataclass(frozen=True, kw_only=True)
class _Means(Model):
    """Mean levels of pictures, padded to the largest of a batch."""

    kind: ClassVar[str] = "means"

    def load(self, device: str) -> None:
        return None

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        import numpy as np

        side = max(max(picture.shape) for picture in batch)
        padded = np.zeros((len(batch), side, side), np.uint8)
        for number, picture in enumerate(batch):
            padded[number, : picture.shape[0], : picture.shape[1]] = picture
        return [float(picture.sum(dtype=np.int64)) for picture in padded]

    def cost(self, item: Item) -> int:
        return int(item.shape[0] * item.shape[1])


def padded_over_real(model: str) -> dict[str, Any]:
    """Return the ratio of captions, that of pictures, and the larger of the two as ``padding``."""
    import numpy as np

    from wdsflow.models.loaded import LoadedModels
    from wdsflow.stages.scores.model.clip.clip_tokens import clip_item
    from wdsflow.stages.scores.model.clip.towers import ClipText

    rng = random.Random(0)
    text, models = ClipText(model=model, pretrained=""), LoadedModels("cpu")
    captions = [
        clip_item(model, " ".join(rng.choices(_WORDS, k=_length(rng, 1, 70))))
        for _ in range(_SAMPLES)
    ]
    pictures = [
        np.ones((side, side), np.uint8) for side in (_length(rng, 32, 512) for _ in range(_SAMPLES))
    ]
    for start in range(0, _SAMPLES, _WINDOW):
        models.map(text, captions[start : start + _WINDOW])
        models.map(_Means(), pictures[start : start + _WINDOW])
    tallies = {model.kind: runner.tally for model, runner in models.runners.items()}
    ratios = {kind: tally.padded / tally.real for kind, tally in tallies.items()}
    sizes = {kind: tally.items / tally.batches for kind, tally in tallies.items()}
    return {"padding": max(ratios.values()), "ratios": ratios, "items_a_batch": sizes}


def _length(rng: random.Random, least: int, most: int) -> int:
    """Draw a size: small ones are frequent, large ones are there."""
    return min(most, least + int(rng.lognormvariate(0, 1) * (most - least) / 8))
