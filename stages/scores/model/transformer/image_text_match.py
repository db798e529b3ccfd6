"""BLIP's image-text matching."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from wdsflow.memory.precision import Precision, used_precision

from ...base import SEEN_PIXELS, Scalar, Value, single_or_list
from ...sample_view import View
from ..model import Item, Loaded, Output
from ..model_score import Request
from ..pictures.picture_batch import pixel_count
from ..pictures.picture_score import PictureScore
from ..pictures.prepare import Flip
from ..pictures.reduced import Reduce, reduced
from .captions import padded, text_facts, token_ids, token_limit
from .processor import black_picture, pixel_values, preparation, resize_geometry
from .transformer_model import TransformerModel, TransformerScore

_MOST_TOKENS = 512
# Pixels that cost as much as a token: vision transformers use patches of 16 x 16.
_PATCH = 256


@dataclass(frozen=True, kw_only=True)
class ImageTextMatcher(
    TransformerModel,
    kind="BLIP image-text matching",
    packages=(*TransformerModel.packages, "pillow", "simplejpeg"),
    loads="BlipForImageTextRetrieval",
    facts_shared=(text_facts, resize_geometry),
):
    """From (picture, token ids) to the probability that they match.

    ``model`` is a BlipForImageTextRetrieval.
    """

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        import torch

        device = str(loaded.device)
        pictures = [picture for picture, _tokens in batch]
        pixels = pixel_values(self.model, pictures, device).to(loaded.dtype)
        captions = [tokens for _picture, tokens in batch]
        inputs = padded(captions, device, loaded.config.text_config.pad_token_id or 0)
        # The model creates a mask on the default device.
        with torch.device(device):
            scores = loaded(**inputs, pixel_values=pixels, use_itm_head=True).itm_score
        probabilities: list[float] = scores.float().softmax(-1)[:, 1].tolist()
        return probabilities

    def cost(self, item: Item) -> int:
        picture, tokens = item
        return pixel_count(picture) + _PATCH * len(tokens)

    def largest(self) -> Item | None:
        import numpy as np

        black = black_picture(self.model)
        if black is None:
            return None
        return black, np.ones(token_limit(self.model, _MOST_TOKENS), np.int32)


@dataclass(frozen=True, kw_only=True)
class ImageTextMatch(
    TransformerScore,
    PictureScore,
    name="image_text_match",
    low=0,
    high=1,
    subject="caption",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=2,
):
    """Probability that caption and image match, by BLIP's image-text matching: from 0 to 1.

    One value for each caption. If a sample has several images, it is the mean over them, or by
    ``reduce`` the largest or the smallest; over frames of its videos (``frames``, ``sampling``) if
    it has no image. ``model`` is a BlipForImageTextRetrieval: a name in the hub, "name@revision" or
    a folder; ``flip`` mirrors images first. Captions are cut after 512 tokens, or at the length of
    the model. Six digits. Other items of a batch may change a value by 1e-5 in fp32, by 0.02 in
    bf16 and fp16. ``decode``: see classify. Source: BLIP (Li et al. 2022). Data-Juicer's
    image_text_matching_score, softmax(itm_score)[1], is the same number except for rounding, with
    decode="exact".
    """

    model: str = "Salesforce/blip-itm-base-coco"
    precision: Precision = "auto"
    caption: str = ""
    reduce: Reduce = "mean"
    flip: Flip = ""

    def main_model(self) -> ImageTextMatcher:
        return ImageTextMatcher(model=self.model, precision=used_precision(self.precision))

    def requests(self, view: View) -> list[Request]:
        """Return a request for each picture with each caption, caption by caption."""
        model = self.main_model()
        prepare = preparation(self.model, self.flip, self.decode)
        captions = self.captions(view, self.caption)
        pictures = self.picture_requests(view, model, prepare)
        requests: list[Request] = []
        for text in captions:
            for picture in pictures:
                key = (picture.key, self.flip, text)
                requests.append(Request(model, key, partial(self._pair, picture, text)))
        return requests

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        pictures = sum(self.picture_counts(view))
        values: list[Scalar] = []
        for start in range(0, len(outputs), pictures):
            value = reduced(outputs[start : start + pictures], self.reduce)
            values.append(round(value, 6))
        return single_or_list(values)

    def _pair(self, picture: Request, text: str) -> Item:
        import numpy as np

        ids = token_ids(self.model, text, token_limit(self.model, _MOST_TOKENS))
        return picture.make(), np.array(ids, np.int32)
