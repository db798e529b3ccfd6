"""The towers of a CLIP as models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsflow.memory.precision import UsedPrecision

from ..model import Item, Loaded, Model, ModelSource, Output
from ..model_files import source_of
from ..pictures.picture_batch import pixel_count, stacked_pictures
from .clip_config import Preprocess, clip_geometry, clip_preprocess, clip_source, hashed_name
from .clip_tokens import Processor, clip_item, require_tokenizer, stack_tokens, token_context
from .load_clip import Clip, load_clip, trims_padding

if TYPE_CHECKING:
    from .load_clip import Embeddings

# Labels that are embedded together.
_LABEL_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class ClipModel(Model, packages=("torch", "open_clip_torch", "timm")):
    """Base of the towers. ``model`` and ``pretrained``: see ``load_clip``."""

    model: str
    pretrained: str
    precision: UsedPrecision = "fp32"

    def load(self, device: str) -> Loaded:
        return load_clip(self.model, self.pretrained, self.precision, device)

    def size(self) -> int:
        """Return the length of an embedding, without loading weights."""
        return clip_preprocess(self.model, self.pretrained)["embed_dim"]

    def display_name(self) -> str:
        if not self.pretrained:
            return f"{self.kind}, {self.model!r}"
        return f"{self.kind}, {self.model!r} with {self.pretrained!r}"

    def download_source(self) -> ModelSource | None:
        return clip_source(self.model, self.pretrained)

    def identity(self) -> dict[str, object]:
        settings = {
            **vars(self),
            "model": hashed_name(self.model, self.pretrained),
            "pretrained": source_of(self.pretrained),
        }
        return {**super().identity(), "settings": settings}


@dataclass(frozen=True, kw_only=True)
class ClipImage(
    ClipModel, kind="open_clip image", packages=(*ClipModel.packages, "pillow", "simplejpeg")
):
    """The image tower: from pictures (3, height, width) to embeddings (d).

    Pictures are those of ``Prepare``. Embeddings are float32 of length 1.
    """

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        pixels = stacked_pictures(batch)
        # ``Prepare`` makes all of one shape.
        assert pixels is not None
        return list(loaded.images(pixels))

    def facts(self) -> Preprocess:
        return clip_preprocess(self.model, self.pretrained)

    def accept_facts(self, facts: Preprocess) -> None:
        clip_preprocess.share(facts, self.model, self.pretrained)

    def cost(self, item: Item) -> int:
        return pixel_count(item)

    def largest(self) -> Item:
        import numpy as np

        return np.zeros((3, *clip_geometry(self.model, self.pretrained).size), np.uint8)


@dataclass(frozen=True, kw_only=True)
class ClipText(
    ClipModel, kind="open_clip text", packages=(*ClipModel.packages, "transformers", "tokenizers")
):
    """The text tower: from items of ``clip_item`` to embeddings (d), float32 of length 1.

    Decoders need not load OpenCLIP.
    """

    tokenizer: Processor = "openclip"

    def load(self, device: str) -> Loaded:
        """Return the model, shared with the other tower.

        Raises ValueError if ``tokenizer`` does not fit it.
        """
        require_tokenizer(self.model, self.tokenizer)
        return super().load(device)

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        return list(loaded.texts(stack_tokens(self.model, batch)))

    def facts(self) -> int | None:
        return token_context(self.model)

    def accept_facts(self, facts: int | None) -> None:
        token_context.share(facts, self.model)

    def cost(self, item: Item) -> int:
        """Return the tokens; 1 if all captions are padded to the same length."""
        if isinstance(item, str) or not trims_padding(self.model, self.pretrained, self.precision):
            return 1
        return len(item)

    def largest(self) -> Item:
        import numpy as np

        context = token_context(self.model)
        if context is None:
            return "a"
        return np.ones(context, np.int32)


@dataclass(frozen=True, kw_only=True)
class ClipLabels(ClipModel, kind="open_clip labels", packages=ClipText.packages):
    """Texts that are the same for all samples.

    Their embeddings are computed once, on loading.

    Nothing runs for an item, which may be None; all outputs are one array, float32 (labels, d).
    """

    labels: tuple[str, ...]
    tokenizer: Processor = "openclip"

    def load(self, device: str) -> "tuple[Clip, Embeddings]":
        """Return the model, to keep it loaded, and the embeddings of the labels.

        Raises ValueError if ``tokenizer`` does not fit the model.
        """
        import numpy as np
        import torch

        require_tokenizer(self.model, self.tokenizer)
        clip = super().load(device)
        items = [clip_item(self.model, label, self.tokenizer) for label in self.labels]
        tokens = stack_tokens(self.model, items)
        starts = range(0, len(tokens), _LABEL_BATCH)
        with torch.inference_mode():
            parts = [clip.texts(tokens[start : start + _LABEL_BATCH]) for start in starts]
        return clip, np.concatenate(parts)

    def run(self, loaded: "tuple[Clip, Embeddings]", batch: Sequence[Item]) -> Sequence[Output]:
        _clip, embeddings = loaded
        return [embeddings] * len(batch)
