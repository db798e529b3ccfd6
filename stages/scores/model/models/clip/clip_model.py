"""The towers of a CLIP as models. They share one that is loaded: see ``load_clip``."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...model_score import Item, Model, ModelSource, Output, Precision
from .clip_loading import Clip, clip_geometry, clip_preprocess, clip_source, load_clip, trims
from .clip_tokens import By, clip_item, known_context, must_tokenize, stacked
from .clip_weights import source_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 64  # labels
_FOLDER = "local-dir:"


@dataclass(frozen=True, kw_only=True)
class ClipModel(Model):
    """What the towers have in common. ``model`` and ``pretrained``: see ``load_clip``."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "open_clip_torch", "timm")

    model: str
    pretrained: str
    precision: Precision = "fp32"

    def load(self, device: str) -> Any:
        """Return the model, shared with the other tower."""
        return load_clip(self.model, self.pretrained, self.precision, device)

    @abstractmethod
    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an embedding for each item: float32, of length 1."""

    def size(self) -> int:
        """Return how many numbers an embedding has; told without loading weights."""
        return int(clip_preprocess(self.model, self.pretrained)["embed_dim"])

    def called(self) -> str:
        """Return what people know it by."""
        return f"{self.kind}, {self.model!r}{f' with {self.pretrained!r}' if self.pretrained else ''}"

    def fetched(self) -> ModelSource | None:
        """Return its repository, or the address of its weights."""
        return clip_source(self.model, self.pretrained)

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; files by their contents."""
        identity = super().identity()
        identity["settings"] |= {"model": named(self.model, self.pretrained), "pretrained": source_of(self.pretrained)}
        return identity


@dataclass(frozen=True, kw_only=True)
class ClipImage(ClipModel):
    """The image tower: from what ``Prepare`` gives to an embedding."""

    kind: ClassVar[str] = "open_clip image"
    packages: ClassVar[tuple[str, ...]] = (*ClipModel.packages, "pillow", "simplejpeg")

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an embedding for each picture."""
        import numpy as np

        return list(loaded.images(np.stack(batch)))

    def facts(self) -> dict[str, Any]:
        """Return OpenCLIP's preprocess_cfg."""
        return clip_preprocess(self.model, self.pretrained)

    def recall(self, facts: dict[str, Any]) -> None:
        """Keep the preprocess_cfg."""
        clip_preprocess.share(facts, self.model, self.pretrained)

    def cost(self, item: Item) -> int:
        """Return the pixels."""
        return int(item.shape[1] * item.shape[2])

    def largest(self) -> Item:
        """Return a black picture: all have the same size."""
        import numpy as np

        return np.zeros((3, *clip_geometry(self.model, self.pretrained).size), np.uint8)


@dataclass(frozen=True, kw_only=True)
class ClipText(ClipModel):
    """The text tower: from what ``clip_item`` gives to an embedding. Decoders need not load OpenCLIP for it."""

    kind: ClassVar[str] = "open_clip text"
    packages: ClassVar[tuple[str, ...]] = (*ClipModel.packages, "transformers", "tokenizers")

    tokenizer: By = "openclip"

    def load(self, device: str) -> Any:
        """Return the model, shared with the other tower. Raises ValueError if ``tokenizer`` is not for it."""
        must_tokenize(self.model, self.tokenizer)
        return super().load(device)

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an embedding for each caption."""
        return list(loaded.texts(stacked(self.model, batch)))

    def facts(self) -> int | None:
        """Return the context length where decoders can tokenise captions."""
        return known_context(self.model)

    def recall(self, facts: int | None) -> None:
        """Keep the context length."""
        known_context.share(facts, self.model)

    def cost(self, item: Item) -> int:
        """Return the tokens; 1 where all captions are padded to the same length."""
        return 1 if isinstance(item, str) or not trims(self.model, self.pretrained, self.precision) else len(item)

    def largest(self) -> Item:
        """Return a caption of as many tokens as there can be."""
        import numpy as np

        context = known_context(self.model)
        return "a" if context is None else np.ones(context, np.int32)


@dataclass(frozen=True)
class Labels:
    """Embeddings of some texts (n, d), and the model that made them, so that others find it loaded."""

    clip: Clip
    embeddings: "NDArray[np.float32]"


@dataclass(frozen=True, kw_only=True)
class ClipLabels(ClipModel):
    """Texts that are the same for all samples: their embeddings are computed once, when this is loaded.

    There is nothing to run for an item, which may be None; all outputs are one array, float32 (labels, d).
    """

    kind: ClassVar[str] = "open_clip labels"
    packages: ClassVar[tuple[str, ...]] = ClipText.packages

    labels: tuple[str, ...]
    tokenizer: By = "openclip"

    def load(self, device: str) -> Labels:
        """Return the embeddings. Raises ValueError if ``tokenizer`` is not for the model."""
        import numpy as np
        import torch

        must_tokenize(self.model, self.tokenizer)
        clip = load_clip(self.model, self.pretrained, self.precision, device)
        tokens = stacked(self.model, [clip_item(self.model, label, self.tokenizer) for label in self.labels])
        with torch.inference_mode():
            parts = [clip.texts(tokens[start : start + _AT_ONCE]) for start in range(0, len(tokens), _AT_ONCE)]
        return Labels(clip, np.concatenate(parts))

    def run(self, loaded: Labels, batch: Sequence[Item]) -> Sequence[Output]:
        """Return the same array for each item."""
        return [loaded.embeddings] * len(batch)


def named(model: str, pretrained: str) -> str:
    """Return a model's name, a folder by its contents; its weights count where there are no others."""
    if not model.startswith(_FOLDER):
        return model
    return _FOLDER + source_of(model.removeprefix(_FOLDER), weights=not pretrained)
