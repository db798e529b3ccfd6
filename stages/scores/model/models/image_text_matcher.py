"""BLIP's judge of whether an image and a text match, as a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..model_score import Item, Output
from .model_fact import ModelFact
from .model_texts import longest, text_facts
from .plain_resize import squeezed_to
from .transformer import TransformerModel

MOST_TOKENS = 512
_PATCH = 256  # pixels that cost what a token costs: vision transformers cut patches of 16 x 16


@dataclass(frozen=True, kw_only=True)
class ImageTextMatcher(TransformerModel):
    """From (picture, token ids) to the probability that they match. ``model`` is a BlipForImageTextRetrieval."""

    kind: ClassVar[str] = "BLIP image-text matching"
    packages: ClassVar[tuple[str, ...]] = (*TransformerModel.packages, "pillow", "simplejpeg")
    loads: ClassVar[str] = "BlipForImageTextRetrieval"
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = (text_facts, squeezed_to)

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return a number for each pair."""
        import torch

        from .padding import padded
        from .processors import values

        device = str(loaded.device)
        pixels = values(self.model, [picture for picture, _tokens in batch], device).to(loaded.dtype)
        inputs = padded([tokens for _picture, tokens in batch], device, loaded.config.text_config.pad_token_id or 0)
        with torch.device(device):  # it makes a mask without saying where
            scores = loaded(**inputs, pixel_values=pixels, use_itm_head=True).itm_score
        found: list[float] = scores.float().softmax(-1)[:, 1].tolist()
        return found

    def cost(self, item: Item) -> int:
        """Return the pixels, and 256 for each token."""
        picture, tokens = item
        return int(picture.shape[1] * picture.shape[2]) + _PATCH * len(tokens)

    def largest(self) -> Item | None:
        """Return a black picture with the longest text."""
        import numpy as np

        from .processors import black_picture

        black = black_picture(self.model)
        return None if black is None else (black, np.ones(longest(self.model, MOST_TOKENS), np.int32))
