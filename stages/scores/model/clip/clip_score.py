"""Base classes of scores on the embeddings of a CLIP."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from wdsflow.memory.precision import Precision, used_precision

from ...base import versions_of
from ..model_files import local_path, source_of
from ..model_score import Request
from ..pictures.picture_score import PictureScore
from ..pictures.prepare import Flip, Prepare
from .clip_config import LOCAL, clip_geometry, hashed_name
from .clip_tokens import Processor
from .towers import ClipImage, ClipModel, ClipText

if TYPE_CHECKING:
    from ...sample_view import View

T = TypeVar("T")
Setting = bool | int | float | str
# Parts of the key of an image; a frame has more.
_IMAGE_KEY_PARTS = 3
# Settings of a score that affect the embeddings of images, and of captions.
_IMAGE_SETTINGS = ("image", "video", "frames", "sampling", "decode", "flip", "processor")
_CAPTION_SETTINGS = ("caption", "processor")


class EmbeddingSpec(NamedTuple):
    """The embeddings of each sample's images, or captions, by one tower.

    ``settings``: those of the score that affect the embeddings, sorted by name, without defaults.
    """

    kind: Literal["image", "caption"]
    model: ClipModel
    settings: tuple[tuple[str, Setting], ...]


def embedding_key(request: Request) -> str:
    """Return the key of an embedding in its sample.

    It is a field with its settings, or the hash of a caption.

    "jpg", "jpg/horizontal", "jpg/exact", "mp4/uniform/3/0/av 18.1.0"; xxh3_128 of a caption's
    UTF-8.
    """
    if not isinstance(request.key, tuple):
        return _text_hash(str(request.key))
    parts = list(request.key)
    if len(parts) > _IMAGE_KEY_PARTS:
        parts.append(f"av {versions_of('av')['av']}")
    return "/".join(str(part) for part in parts if part != "")


@dataclass(frozen=True, kw_only=True)
class ClipScore(PictureScore, needs=("clip",), packages=("open_clip_torch",), cpu_seconds=0.1):
    """A score on embeddings of a CLIP.

    ``model`` is a name of OpenCLIP's, "local-dir:FOLDER" or "hf-hub:NAME".

    ``pretrained`` is a tag of OpenCLIP, or a file of weights; "" if the folder or the hub has them.
    ``precision`` "auto" is that of the run: see ``Recipe.precision``. ``processor``: what captions
    and pictures are prepared like, "openclip" or "hf", transformers' CLIPProcessor.
    """

    model: str = "ViT-B-32-quickgelu"
    pretrained: str = "openai"
    precision: Precision = "auto"
    processor: Processor = "openclip"

    def __post_init__(self) -> None:
        super().__post_init__()
        local_path(self.pretrained)
        if not self.pretrained and not self.model.startswith((LOCAL, "hf-hub:")):
            raise ValueError(
                f"{self.name}: {self.model!r} without pretrained=... would have random weights"
            )
        if self.pretrained and self.model.startswith("hf-hub:"):
            raise ValueError(
                f"{self.name}: {self.model!r} brings its own weights; give pretrained=''"
            )
        if self.model.startswith(LOCAL) and self.pretrained and local_path(self.pretrained) is None:
            raise ValueError(
                f"{self.name}: pretrained={self.pretrained!r} is not a file; '' uses the weights in the folder"
            )

    def tower(self, kind: Callable[..., T], **settings: object) -> T:
        """Return a model of this score's weights."""
        return kind(
            model=self.model,
            pretrained=self.pretrained,
            precision=used_precision(self.precision),
            **settings,
        )

    def main_model(self) -> ClipImage:
        return self.tower(ClipImage)

    def preparation(self, flip: Flip = "") -> Prepare:
        geometry = clip_geometry(self.model, self.pretrained)
        if self.processor == "hf":
            geometry = replace(geometry, rounds_down=True)
        return Prepare(geometry=geometry, flip=flip, decode=self.decode)

    def image_requests(self, view: "View", flip: Flip = "") -> list[Request]:
        """Return a request for the embedding of each image, or of each frame of videos.

        Its key ends in ``flip``, followed by ``processor`` unless that is "openclip".
        """
        prepared_by = "" if self.processor == "openclip" else self.processor
        suffix = "-".join(part for part in (flip, prepared_by) if part)
        return self.picture_requests(view, self.main_model(), self.preparation(flip), suffix)

    def requests(self, view: "View") -> list[Request]:
        return self.image_requests(view)

    def embedding_specs(self) -> tuple[EmbeddingSpec, ...]:
        """Return the kinds of embeddings that the score requests of a sample.

        Those of labels are left out: they are the same for all samples.
        """
        specs: list[EmbeddingSpec] = []
        for model in self.models():
            if isinstance(model, ClipImage):
                specs.append(EmbeddingSpec("image", model, self._changed_settings(_IMAGE_SETTINGS)))
            elif isinstance(model, ClipText):
                settings = self._changed_settings(_CAPTION_SETTINGS)
                specs.append(EmbeddingSpec("caption", model, settings))
        return tuple(specs)

    def _changed_settings(self, names: Iterable[str]) -> tuple[tuple[str, Setting], ...]:
        """Return the model's settings, and changed settings among ``names``, sorted by name.

        A setting is changed if it differs from its default.
        """
        settings: dict[str, Setting] = {"model": self.model, "pretrained": self.pretrained}
        precision = used_precision(self.precision)
        if precision != "fp32":
            settings["precision"] = precision
        defaults = {item.name: item.default for item in fields(self)}
        for name in names:
            # Not every score has all of them.
            if name in defaults and getattr(self, name) != defaults[name]:
                settings[name] = getattr(self, name)
        return tuple(sorted(settings.items()))

    def settings(self) -> dict[str, object]:
        """Return the settings; files by a hash of their contents."""
        return {
            **super().settings(),
            "model": hashed_name(self.model, self.pretrained),
            "pretrained": source_of(self.pretrained),
        }


@dataclass(frozen=True, kw_only=True)
class ClipTextScore(ClipScore):
    """A score on embeddings of images and texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.processor == "hf":
            object.__setattr__(self, "needs", (*self.needs, "transformers"))
            object.__setattr__(self, "packages", (*self.packages, "transformers", "tokenizers"))


def _text_hash(text: str) -> str:
    import xxhash

    return str(xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass")))
