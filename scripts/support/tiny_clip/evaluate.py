"""How well the trained model finds the caption of a picture, and the picture of a caption."""

import io
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from . import shards
from .model import TinyClip

if TYPE_CHECKING:
    import torch


class Figures(NamedTuple):
    """Top-1 accuracy among a hundred, for each hundred, and the similarity of pairs.

    Similarity is the cosine of picture and caption.
    """

    image_to_text: list[float]
    text_to_image: list[float]
    matching: float
    others: float


def evaluate(clip: TinyClip, shard: Path) -> Figures:
    """Compare each picture of a shard with the captions of its hundred, and the other way round."""
    samples = shards.read(shard)
    hundreds = [
        _similarities(clip, samples[start : start + 100]) for start in range(0, len(samples), 100)
    ]
    matching = fmean(float(scores.diagonal().mean()) for scores in hundreds)
    all_pairs = fmean(float(scores.mean()) for scores in hundreds)
    return Figures(
        image_to_text=[_top1(scores) for scores in hundreds],
        text_to_image=[_top1(scores.T) for scores in hundreds],
        matching=matching,
        # Of the 100 captions for each picture, 99 belong to others.
        others=(100 * all_pairs - matching) / 99,
    )


def _similarities(clip: TinyClip, samples: list[tuple[bytes, str]]) -> "torch.Tensor":
    """Return the cosine of each picture (row) with each caption (column)."""
    import torch
    from PIL import Image

    pictures = torch.stack([clip.preprocess(Image.open(io.BytesIO(jpeg))) for jpeg, _ in samples])
    texts = clip.tokenizer([caption for _, caption in samples])
    with torch.inference_mode():
        rows = clip.model.encode_image(pictures, normalize=True)  # type: ignore[operator]
        columns = clip.model.encode_text(texts, normalize=True)  # type: ignore[operator]
        similarities: torch.Tensor = rows @ columns.T
    return similarities


def _top1(scores: "torch.Tensor") -> float:
    """Return the share of rows whose largest value is on the diagonal."""
    import torch

    return float((scores.argmax(dim=1) == torch.arange(len(scores))).float().mean())
