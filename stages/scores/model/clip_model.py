"""CLIPs of OpenCLIP, loaded once per device, and their towers as models."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from weakref import WeakValueDictionary

from wdsflow.memory.precision import UsedPrecision

from .clip_tokens import (
    LOCAL,
    Processor,
    TextTower,
    clip_item,
    full_name,
    known_context,
    must_tokenize,
    named,
    stacked,
)
from .model_score import Item, Loaded, Model, ModelFact, ModelSource, Output, local_path, source_of
from .pictures import Geometry, area, joined

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from open_clip import CLIP

    from ...imaging.torch_kernel import Kernel
    from .clip_tokens import Tokens
    from .pictures import Pixels

    # Texts or pictures, numbers.
    Embeddings = NDArray[np.float32]


_HUB = "hf-hub:"
_CONFIG = "open_clip_config.json"
_loaded: "WeakValueDictionary[tuple[str, ...], Clip]" = WeakValueDictionary()
_lock = threading.Lock()


class Preprocess(TypedDict):
    """OpenCLIP's preprocess_cfg of a model, and ``embed_dim``, the length of an embedding."""

    size: int | tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    resize_mode: str
    fill_color: int
    embed_dim: int


class Clip:
    """A loaded model on a device; freed when no longer referenced."""

    def __init__(
        self, model: "CLIP", precision: UsedPrecision, device: str, preprocess: Preprocess
    ) -> None:
        import torch
        from open_clip import get_input_dtype

        self.model, self.device = model, device
        self.text = TextTower(model)
        self.dtype = get_input_dtype(precision)
        shape = (1, 3, 1, 1)
        self.mean = torch.tensor(preprocess["mean"], device=device).view(shape)
        self.std = torch.tensor(preprocess["std"], device=device).view(shape)

    def images(self, batch: "Pixels") -> "Embeddings":
        """Return embeddings of length 1, float32 (n, d), for an array (n, 3, height, width) of uint8."""
        import torch

        pixels = (
            torch.from_numpy(batch)
            .to(self.device, non_blocking=True)
            .float()
            .div_(255)
            .sub_(self.mean)
            .div_(self.std)
        )
        return self._unit(self.model.encode_image(pixels.to(self.dtype or pixels.dtype)))

    def texts(self, batch: "Tokens") -> "Embeddings":
        """Return the same for tokens (n, up to the context length): see ``TextTower``."""
        import torch

        tokens = torch.from_numpy(batch).to(self.device).long()
        # Fewer shapes, of which kernels for masks prefer multiples of 8.
        if self.device.startswith("cuda"):
            room = max(0, self.text.context - tokens.shape[1])
            tokens = torch.nn.functional.pad(tokens, (0, min(-tokens.shape[1] % 8, room)))
        return self._unit(self.text(tokens))

    def _unit(self, features: "torch.Tensor") -> "Embeddings":
        import torch

        return torch.nn.functional.normalize(features.float(), dim=-1).cpu().numpy()


def load_clip(model: str, pretrained: str, precision: UsedPrecision, device: str) -> Clip:
    """Return a model, the same object as long as it is referenced. Raises ValueError, and errors of OpenCLIP.

    ``pretrained`` is a tag of OpenCLIP, or a file of weights or checkpoint of open_clip_train; it
    may be "" if ``model`` is "local-dir:FOLDER" or "hf-hub:NAME" with weights in it.
    """
    key = (model, pretrained, precision, device)
    # Two concurrent loads would take twice the memory.
    with _lock:
        clip = _loaded.get(key)
        if clip is None:
            clip = _loaded[key] = _load(model, pretrained, precision, device)
        return clip


def trims(model: str, pretrained: str, precision: UsedPrecision) -> bool:
    """Return whether a model that is loaded on some device skips the padding of captions."""
    return any(
        clip.text.trims
        for key, clip in list(_loaded.items())
        if key[:3] == (model, pretrained, precision)
    )


def _load(model: str, pretrained: str, precision: UsedPrecision, device: str) -> Clip:
    import open_clip

    name, path = full_name(model), local_path(pretrained)
    if name.startswith(LOCAL) and path is not None:
        with _quiet():
            net = open_clip.create_model(
                name, load_weights=False, pretrained_text=False, precision=precision
            )
        open_clip.load_checkpoint(net, str(path))
    else:
        tag = str(path or pretrained) or None
        net = open_clip.create_model(name, tag, precision=precision, require_pretrained=True)
    preprocess = clip_preprocess(model, pretrained)
    expected = open_clip.get_model_preprocess_cfg(net)
    if _geometry(expected) != _geometry(preprocess):
        raise ValueError(
            f"{model}: pictures were to be prepared as {preprocess}, but it was made for {expected}"
        )
    return Clip(net.eval().to(device), precision, device, {**preprocess, **expected})


def clip_source(model: str, pretrained: str) -> ModelSource | None:
    """Return the origin of OpenCLIP's download of a model; None if it is in a folder."""
    import open_clip

    folder = "model='local-dir:FOLDER', pretrained=''"
    if model.startswith(_HUB):
        return ModelSource(model.removeprefix(_HUB), folder=folder)
    found = open_clip.get_pretrained_cfg(model.replace("/", "-"), pretrained) if pretrained else {}
    if hub := found.get("hf_hub"):
        return ModelSource(hub.rpartition("/")[0], folder=folder)
    return ModelSource(url=found["url"]) if found.get("url") else None


@ModelFact
@cache
def clip_preprocess(model: str, pretrained: str) -> Preprocess:
    """Return OpenCLIP's preprocess_cfg of a model, without loading its weights."""
    import open_clip
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    name = full_name(model)
    more: dict[str, object] = {}
    if name.startswith(LOCAL):
        more = json.loads(Path(name.removeprefix(LOCAL), _CONFIG).read_text("utf-8")).get(
            "preprocess_cfg", {}
        )
    elif name.startswith(_HUB):
        from open_clip.pretrained import download_pretrained_from_hf

        config = download_pretrained_from_hf(name.removeprefix(_HUB), filename=_CONFIG)
        more = json.loads(Path(config).read_text("utf-8")).get("preprocess_cfg", {})
    elif pretrained and local_path(pretrained) is None:
        more = open_clip.get_pretrained_cfg(name.replace("/", "-"), pretrained)
    found: Preprocess = merge_preprocess_dict(asdict(PreprocessCfg()), more)
    architecture = open_clip.get_model_config(name if ":" in name else name.replace("/", "-"))
    if architecture is None:
        raise ValueError(f"OpenCLIP knows no model {model!r}: see open_clip.list_models()")
    found["size"] = architecture["vision_cfg"].get("image_size", found["size"])
    found["embed_dim"] = architecture["embed_dim"]
    return found


def clip_geometry(model: str, pretrained: str) -> Geometry:
    """Return the geometry of a model's evaluation transform."""
    return _geometry(clip_preprocess(model, pretrained))


def _geometry(preprocess: Preprocess) -> Geometry:
    """Source: ``open_clip.transform.image_transform``."""
    given = preprocess["size"]
    size = (given, given) if isinstance(given, int) else given
    kernel: Kernel = "bilinear" if preprocess["interpolation"] == "bilinear" else "bicubic"
    mode = preprocess["resize_mode"]
    if mode == "longest":
        return Geometry(size=size, fit="within", kernel=kernel, fill=preprocess["fill_color"])
    if mode == "squash":
        return Geometry(size=size, fit="both", kernel=kernel)
    if size[0] == size[1]:
        return Geometry(size=size, fit="short", kernel=kernel)
    # OpenCLIP's kernel is always bicubic here.
    return Geometry(size=size, fit="cover")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings that a model has no weights yet."""

    def passes(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return "initialized randomly" not in text and "no CLIP weights found" not in text

    root = logging.getLogger()
    root.addFilter(passes)
    try:
        yield
    finally:
        root.removeFilter(passes)


# Labels.
_AT_ONCE = 64


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

    def called(self) -> str:
        return (
            f"{self.kind}, {self.model!r}{f' with {self.pretrained!r}' if self.pretrained else ''}"
        )

    def fetched(self) -> ModelSource | None:
        return clip_source(self.model, self.pretrained)

    def identity(self) -> dict[str, object]:
        sources = {
            "model": named(self.model, self.pretrained),
            "pretrained": source_of(self.pretrained),
        }
        return {**super().identity(), "settings": {**vars(self), **sources}}


@dataclass(frozen=True, kw_only=True)
class ClipImage(
    ClipModel, kind="open_clip image", packages=(*ClipModel.packages, "pillow", "simplejpeg")
):
    """The image tower: from pictures of ``Prepare`` to embeddings, float32 of length 1."""

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        pixels = joined(batch)
        # ``Prepare`` makes all of one shape.
        assert pixels is not None
        return list(loaded.images(pixels))

    def facts(self) -> Preprocess:
        return clip_preprocess(self.model, self.pretrained)

    def recall(self, facts: Preprocess) -> None:
        clip_preprocess.share(facts, self.model, self.pretrained)

    def cost(self, item: Item) -> int:
        return area(item)

    def largest(self) -> Item:
        import numpy as np

        return np.zeros((3, *clip_geometry(self.model, self.pretrained).size), np.uint8)


@dataclass(frozen=True, kw_only=True)
class ClipText(
    ClipModel, kind="open_clip text", packages=(*ClipModel.packages, "transformers", "tokenizers")
):
    """The text tower: from items of ``clip_item`` to embeddings, float32 of length 1. Decoders need not load OpenCLIP."""

    tokenizer: Processor = "openclip"

    def load(self, device: str) -> Loaded:
        """Return the model, shared with the other tower. Raises ValueError if ``tokenizer`` does not fit it."""
        must_tokenize(self.model, self.tokenizer)
        return super().load(device)

    def run(self, loaded: Clip, batch: Sequence[Item]) -> Sequence[Output]:
        return list(loaded.texts(stacked(self.model, batch)))

    def facts(self) -> int | None:
        return known_context(self.model)

    def recall(self, facts: int | None) -> None:
        known_context.share(facts, self.model)

    def cost(self, item: Item) -> int:
        """Return the tokens; 1 if all captions are padded to the same length."""
        return (
            1
            if isinstance(item, str) or not trims(self.model, self.pretrained, self.precision)
            else len(item)
        )

    def largest(self) -> Item:
        import numpy as np

        context = known_context(self.model)
        return "a" if context is None else np.ones(context, np.int32)


@dataclass(frozen=True, kw_only=True)
class ClipLabels(ClipModel, kind="open_clip labels", packages=ClipText.packages):
    """Texts that are the same for all samples: their embeddings are computed once, when this is loaded.

    Nothing runs for an item, which may be None; all outputs are one array, float32 (labels, d).
    """

    labels: tuple[str, ...]
    tokenizer: Processor = "openclip"

    def load(self, device: str) -> "tuple[Clip, Embeddings]":
        """Return the model, to keep it loaded, and embeddings. Raises ValueError if ``tokenizer`` does not fit it."""
        import numpy as np
        import torch

        must_tokenize(self.model, self.tokenizer)
        clip = super().load(device)
        tokens = stacked(
            self.model, [clip_item(self.model, label, self.tokenizer) for label in self.labels]
        )
        with torch.inference_mode():
            parts = [
                clip.texts(tokens[start : start + _AT_ONCE])
                for start in range(0, len(tokens), _AT_ONCE)
            ]
        return clip, np.concatenate(parts)

    def run(self, loaded: "tuple[Clip, Embeddings]", batch: Sequence[Item]) -> Sequence[Output]:
        return [loaded[1]] * len(batch)
