"""Scores on the embeddings of a CLIP."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from wdsflow.memory.precision import Precision, used

from ..base import SEEN_PIXELS, Value, bare, versions_of
from .clip_model import ClipImage, ClipLabels, ClipModel, ClipText, clip_geometry
from .clip_tokens import LOCAL, Processor, clip_item, named
from .model_score import Model, Output, Request, local_path, source_of, while_unchanged
from .pictures import Flip, PictureScore, Prepare, Reduce, reduced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..sample_view import View

    Numbers = NDArray[np.float64]

T = TypeVar("T")
# Parts of the key of an image; a frame has more.
_IMAGE = 3
Setting = bool | int | float | str


class Embedded(NamedTuple):
    """The embeddings of each sample's images, or captions, by one tower.

    ``settings``: those of the score that affect the embeddings, sorted by name, without defaults.
    """

    of: Literal["image", "caption"]
    model: ClipModel
    settings: tuple[tuple[str, Setting], ...]


def embedding_key(request: Request) -> str:
    """Return the identity of an embedding in its sample: a field with its settings, or the hash of a caption.

    "jpg", "jpg/horizontal", "jpg/exact", "mp4/uniform/3/0/av 18.1.0"; xxh3_128 of a caption's
    UTF-8.
    """
    if isinstance(request.key, tuple):
        parts = request.key
        decoder = f"av {versions_of('av')['av']}" if len(parts) > _IMAGE else ""
        return "/".join(str(part) for part in (*parts, decoder) if part != "")
    import xxhash

    return str(xxhash.xxh3_128_hexdigest(str(request.key).encode("utf-8", "surrogatepass")))


@dataclass(frozen=True, kw_only=True)
class ClipScore(PictureScore, needs=("clip",), packages=("open_clip_torch",), cpu_seconds=0.1):
    """A score on embeddings. ``model`` is a name of OpenCLIP's, "local-dir:FOLDER" or "hf-hub:NAME".

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
            model=self.model, pretrained=self.pretrained, precision=used(self.precision), **settings
        )

    def main_model(self) -> ClipImage:
        return self.tower(ClipImage)

    def preparation(self, flip: Flip = "") -> Prepare:
        geometry = clip_geometry(self.model, self.pretrained)
        if self.processor == "hf":
            geometry = replace(geometry, rounds_down=True)
        return Prepare(geometry=geometry, flip=flip, decode=self.decode)

    def image_requests(self, view: "View", flip: Flip = "") -> list[Request]:
        """Return a request for the embedding of each image, or each frame of videos; its key ends in ``flip``."""
        prepared_by = "" if self.processor == "openclip" else self.processor
        suffix = "-".join(part for part in (flip, prepared_by) if part)
        return self.pictures(view, self.main_model(), self.preparation(flip), suffix)

    def requests(self, view: "View") -> list[Request]:
        return self.image_requests(view)

    def embedded(self) -> tuple[Embedded, ...]:
        """Return the requested embeddings of a sample, without those of labels, which are the same for all samples."""
        found = []
        for model in self.models():
            if isinstance(model, ClipImage):
                given = self._given(
                    "image", "video", "frames", "sampling", "decode", "flip", "processor"
                )
                found.append(Embedded("image", model, given))
            elif isinstance(model, ClipText):
                found.append(Embedded("caption", model, self._given("caption", "processor")))
        return tuple(found)

    def _given(self, *names: str) -> tuple[tuple[str, Setting], ...]:
        """Return the model's settings, and those of ``names`` that differ from their defaults."""
        own = {item.name: item.default for item in fields(self)} | {"precision": "fp32"}
        values = {"precision": used(self.precision)} | {
            name: getattr(self, name) for name in names if name in own
        }
        given = {name: value for name, value in values.items() if value != own[name]}
        return tuple(sorted({**given, "model": self.model, "pretrained": self.pretrained}.items()))

    def settings(self) -> dict[str, object]:
        """Return the settings; files by a hash of their contents."""
        files = {
            "model": named(self.model, self.pretrained),
            "pretrained": source_of(self.pretrained),
        }
        return {**super().settings(), **files}


@dataclass(frozen=True, kw_only=True)
class ClipTextScore(ClipScore):
    """A score on embeddings of images and texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.processor == "hf":
            object.__setattr__(self, "needs", (*self.needs, "transformers"))
            object.__setattr__(self, "packages", (*self.packages, "transformers", "tokenizers"))


Head = Callable[[Output], float]
# Places of the linear layers among those of LAION's predictor, without and with ReLU between them.
_LAION: dict[tuple[int, ...], bool] = {(0, 2, 4, 6, 7): False, (0, 3, 6, 9, 11): True}


def load_head(name: str) -> Head:
    """Return the head in a file. Raises ValueError if it is not a head.

    One linear layer ("weight" and "bias" under any prefix), or five as in LAION's
    improved-aesthetic-predictor.
    """
    path = local_path(name)
    if path is None:
        raise ValueError(f"no such file: {name!r}")
    return _loaded(path)


@while_unchanged
def _loaded(path: Path) -> Head:
    arrays = _arrays(path)
    layers = sorted(name.removesuffix("weight") for name in arrays if name.endswith("weight"))
    layers.sort(key=lambda name: [int(part) for part in name.split(".") if part.isdigit()])
    places = tuple(
        int(part) for name in layers for part in name.split(".")[-2:-1] if part.isdigit()
    )
    rectified = False if len(layers) == 1 else _LAION.get(places)
    known = set(arrays) <= {name + part for name in layers for part in ("weight", "bias")}
    if rectified is None or not layers or not known:
        raise ValueError(
            f"{str(path)!r} is neither a linear head nor LAION's: it has {', '.join(sorted(arrays))[:300]}"
        )
    return _head(
        [(arrays[name + "weight"], arrays.get(name + "bias")) for name in layers], rectified, path
    )


def _head(layers: "list[tuple[Numbers, Numbers | None]]", rectified: bool, path: Path) -> Head:
    import numpy as np

    width = layers[0][0].shape[-1]

    def head(embedding: Output) -> float:
        if embedding.shape != (width,):
            raise ValueError(
                f"{str(path)!r} is for embeddings of {width} values, these have {len(embedding)}"
            )
        values = embedding.astype(np.float64)
        for place, (weight, bias) in enumerate(layers):
            values = weight @ values + (0 if bias is None else bias)
            if rectified and place < len(layers) - 1:
                values = np.maximum(values, 0)
        return float(values[0])

    if layers[-1][0].shape[0] != 1:
        raise ValueError(f"{str(path)!r} gives {layers[-1][0].shape[0]} numbers, not one")
    return head


def _arrays(path: Path) -> "dict[str, Numbers]":
    """Return the file's tensors as arrays of float64. Unpickles only tensors."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        loaded: object = load_file(path)
    else:
        import torch

        loaded = torch.load(path, map_location="cpu", weights_only=True)
    tensors = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else {}
    return {
        name: tensor.double().numpy()
        for name, tensor in tensors.items()
        if hasattr(tensor, "double")
    }


@dataclass(frozen=True, kw_only=True)
class ClipSimilarity(
    ClipTextScore,
    name="clip_similarity",
    low=-1,
    high=1,
    subject="caption",
    scale_tolerance=SEEN_PIXELS,
    cpu_seconds=0.2,
):
    """Cosine of the CLIP embeddings of caption and image: from -1 to 1; 0.2 to 0.35 if they match, for ViT-B-32.

    One value for each caption. If a sample has several images, it is the mean over them, or by
    ``reduce`` the largest or the smallest; over frames of its videos (``frames``, ``sampling``) if
    it has no image. ``model`` and ``pretrained`` name any CLIP of OpenCLIP, or a file of weights;
    ``flip`` mirrors images first. Captions are cut at the end of the context. ``processor``
    "openclip" repairs captions first, as training does (ftfy, entities of HTML): curly quotes,
    "&amp;", ligatures and full-width forms become plain ones. "hf", transformers' CLIPProcessor,
    leaves them unchanged, which makes up to 0.1 of a difference for such captions. It also crops
    some images a pixel nearer to their left or upper edge: where the scaled long side is 3, 7, 11,
    ... pixels longer than the crop. Six digits. Other items of a batch may change a value by 1e-5
    in fp32, by 0.01 in bf16 and fp16; embeddings from a ledger, half floats, by 0.001. On
    photographs, decode="fast" changed it by at most 0.014 (0.0024 on average) for a CLIP of 64
    pixels that was trained on drawings, by 0.0003 for a ViT-B-32 with random weights, and by 0.06
    for a CLIP of 32 pixels with random weights. Source: CLIP (Radford et al. 2021). Data-Juicer's
    image_text_similarity (logits_per_text / 100) is the same number except for rounding, for the
    same weights, with processor="hf" and decode="exact".
    """

    caption: str = ""
    reduce: Reduce = "mean"
    flip: Flip = ""

    def _text_tower(self) -> ClipText:
        return self.tower(ClipText, tokenizer=self.processor)

    def models(self) -> tuple[Model, ...]:
        return self.main_model(), self._text_tower()

    def requests(self, view: "View") -> list[Request]:
        """Return requests for all images, then for all captions, whose keys are the captions."""
        captions, model = self.captions(view, self.caption), self._text_tower()
        texts = [
            Request(model, text, partial(clip_item, self.model, text, self.processor))
            for text in captions
        ]
        return self.image_requests(view, self.flip) + texts

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        count = len(self.captions(view, self.caption))
        pictures, captions = outputs[:-count], outputs[-count:]
        values = []
        for caption in captions:
            cosines = [float(picture @ caption) for picture in pictures]
            values.append(round(reduced(cosines, self.reduce), 6))
        return bare(list(values))


# Logit scale of OpenAI's models, and the limit of others.
_SCALE = 100
# Labels: their embeddings travel with each batch.
_MOST_LABELS = 100


@dataclass(frozen=True, kw_only=True)
class ZeroShot(
    ClipTextScore, name="zero_shot", low=0, high=1, subject="image", scale_tolerance=SEEN_PIXELS
):
    """Probability that an image fits the first of ``labels`` rather than one of the others: from 0 to 1.

    ``labels`` are texts with semicolons between: "a photo of a dog;a drawing of a dog;a text". The
    value is the first of softmax(100 * cosine) over them. One value for each image, or the mean
    over frames of each video (``frames``, ``sampling``, ``reduce``) if the sample has no image.
    ``processor``: see clip_similarity. Six digits. Other items of a batch may change a value by
    1e-4 in fp32, by 0.2 in bf16 and fp16; embeddings from a ledger, half floats, by 0.03. On
    photographs, decode="fast" changed it by at most 0.002 for a ViT-B-32 with random weights. If
    two labels are about equally likely, 0.01 of cosine is 0.25 of probability. Source: CLIP
    (Radford et al. 2021), section 3.1.
    """

    labels: str = ""
    reduce: Reduce = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = self._texts()
        if not 2 <= len(texts) <= _MOST_LABELS or len(set(texts)) < len(texts):
            raise ValueError(
                f"zero_shot needs 2 to {_MOST_LABELS} different labels: labels='a photo;a drawing'"
            )

    def _texts(self) -> tuple[str, ...]:
        return tuple(text for each in self.labels.split(";") if (text := each.strip()))

    def _label_model(self) -> ClipLabels:
        return self.tower(ClipLabels, labels=self._texts(), tokenizer=self.processor)

    def models(self) -> tuple[Model, ...]:
        return self.main_model(), self._label_model()

    def requests(self, view: "View") -> list[Request]:
        """Return a request for the labels, then one for each image."""
        return [Request(self._label_model(), "labels", lambda: None), *self.image_requests(view)]

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        import numpy as np

        labels, *images = outputs

        def share(image: Output) -> float:
            logits = _SCALE * (labels @ image).astype(np.float64)
            shares = np.exp(logits - logits.max())
            return float(shares[0] / shares.sum())

        return self.over_frames(view, images, share, self.reduce)


@dataclass(frozen=True, kw_only=True)
class Aesthetic(
    ClipScore, name="aesthetic", subject="image", scale_tolerance=SEEN_PIXELS, cpu_seconds=2
):
    """Aesthetic rating of an image by a head on its CLIP embedding: about 1 to 10 for LAION's heads.

    ``head`` is a file, a state dict of torch or safetensors: one linear layer, or LAION's five
    (with or without ReLU between, by the names of its layers). ``model`` and ``pretrained`` must be
    those on which the head was trained: "ViT-L-14-quickgelu" and "openai" for LAION's. One value
    for each image, or the mean over frames of each video (``frames``, ``sampling``, ``reduce``) if
    the sample has no image. Four digits. Other items of a batch may change a value by 1e-3 in fp32,
    by 0.1 in bf16 and fp16; embeddings from a ledger, half floats, by 0.0005 times the length of
    the weights of a linear head. Source: LAION-Aesthetics V1 and V2 (improved-aesthetic-predictor).
    Data-Juicer's image_aesthetics_scores is a tenth of it for the predictors named
    shunk031/aesthetics-predictor, with processor="hf" and decode="exact": see clip_similarity.
    """

    head: str = ""
    reduce: Reduce = "mean"
    model: str = "ViT-L-14-quickgelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        path = local_path(self.head)
        if path is None or not path.is_file():
            raise ValueError(
                "aesthetic needs head='/path/of/weights.pth', a linear head or LAION's"
            )

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the rating of each image. Raises ValueError if the head is not for this model."""
        return self.over_frames(view, outputs, load_head(self.head), self.reduce, digits=4)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "head": source_of(self.head)}
