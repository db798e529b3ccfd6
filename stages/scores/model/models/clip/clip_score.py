"""What scores on the embeddings of a CLIP have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ....video.video_pictures import PictureScore
from ...model_score import Precision, Request
from ..embedded import Embedded
from .clip_loading import clip_geometry
from .clip_model import ClipImage, ClipText, named
from .clip_tokens import By, clip_item
from .clip_weights import local_path, source_of

if TYPE_CHECKING:
    from ....sample_view import View
    from ..prepare import Flip


@dataclass(frozen=True, kw_only=True)
class ClipScore(PictureScore):
    """A score on embeddings. ``model`` is a name of OpenCLIP's, "local-dir:FOLDER" or "hf-hub:NAME".

    ``pretrained`` is a tag of OpenCLIP, or a file of weights; "" if the folder or the hub has them.
    """

    needs: ClassVar[tuple[str, ...]] = ("clip",)
    packages: ClassVar[tuple[str, ...]] = ("open_clip_torch",)

    model: str = "ViT-B-32-quickgelu"
    pretrained: str = "openai"
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        local_path(self.pretrained)
        if not self.pretrained and not self.model.startswith(("local-dir:", "hf-hub:")):
            raise ValueError(f"{self.name}: {self.model!r} without pretrained=... would have random weights")
        if self.pretrained and self.model.startswith("hf-hub:"):
            raise ValueError(f"{self.name}: {self.model!r} brings its own weights; give pretrained=''")
        if self.model.startswith("local-dir:") and self.pretrained and local_path(self.pretrained) is None:
            raise ValueError(
                f"{self.name}: pretrained={self.pretrained!r} is not a file; '' uses the weights in the folder"
            )

    def image_model(self) -> ClipImage:
        """Return the image tower."""
        return ClipImage(model=self.model, pretrained=self.pretrained, precision=self.precision)

    def image_requests(self, view: "View", names: Sequence[str], flip: "Flip" = "") -> list[Request]:
        """Return a request for the embedding of each image, or each frame of videos; its key ends in ``flip``."""
        from ..prepare import Prepare

        prepare = Prepare(geometry=clip_geometry(self.model, self.pretrained), flip=flip, decode=self.decode)
        model = self.image_model()
        return [Request(model, (*key, flip), make) for key, make in self.pictures(view, names, prepare)]

    def embedded(self) -> tuple[Embedded, ...]:
        """Return which embeddings of a sample it asks for; those of labels, the same for all samples, are not among them."""
        found = []
        for model in self.models():
            if isinstance(model, ClipImage):
                found.append(
                    Embedded("image", model, self._given("image", "video", "frames", "sampling", "decode", "flip"))
                )
            elif isinstance(model, ClipText):
                found.append(Embedded("caption", model, self._given("caption", "tokenizer")))
        return tuple(found)

    def _given(self, *names: str) -> tuple[tuple[str, Any], ...]:
        """Return the model's settings, and those of ``names`` that have not their defaults."""
        own = {item.name: item.default for item in fields(self)}
        told = {name: getattr(self, name) for name in ("precision", *names) if name in own}
        given = {name: value for name, value in told.items() if value != own[name]}
        return tuple(sorted({**given, "model": self.model, "pretrained": self.pretrained}.items()))

    def settings(self) -> dict[str, Any]:
        """Return the settings; files by their contents, wherever they lie."""
        files = {"model": named(self.model, self.pretrained), "pretrained": source_of(self.pretrained)}
        return {**super().settings(), **files}


@dataclass(frozen=True, kw_only=True)
class ClipTextScore(ClipScore):
    """A score on embeddings of texts, too. ``tokenizer``: OpenCLIP's, which repairs text first, or transformers' ("hf")."""

    tokenizer: By = "openclip"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer == "hf":
            object.__setattr__(self, "needs", (*self.needs, "transformers"))
            object.__setattr__(self, "packages", (*self.packages, "transformers", "tokenizers"))

    def text_model(self) -> ClipText:
        """Return the text tower."""
        return ClipText(
            model=self.model, pretrained=self.pretrained, precision=self.precision, tokenizer=self.tokenizer
        )

    def text_requests(self, captions: Sequence[str]) -> list[Request]:
        """Return a request for the embedding of each caption; its key is the caption."""
        model = self.text_model()
        return [Request(model, text, partial(clip_item, self.model, text, self.tokenizer)) for text in captions]
