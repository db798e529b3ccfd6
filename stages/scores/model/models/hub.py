"""What transformers knows of a model in a folder or a hub: configuration, labels, tokenizer, image processor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from ..model_score import Loaded, Precision
from ..picture_score import Flip
from .pictures import Geometry, How, Prepare, decode, mirrored
from .weights import ModelFact, local_path

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ....imaging.resample import Kernel
    from .pictures import Pixels


class Config(Protocol):
    """A model's configuration, as far as it is used here."""

    id2label: Mapping[int, str]
    problem_type: str | None


def where(name: str) -> dict[str, str]:
    """Return transformers' arguments for "org/model", "org/model@revision" or a folder.

    >>> where("org/model@0123abc")
    {'pretrained_model_name_or_path': 'org/model', 'revision': '0123abc'}
    """
    path = local_path(name)
    if path is not None:
        return {"pretrained_model_name_or_path": str(path)}
    name, _at, revision = name.partition("@")
    return {"pretrained_model_name_or_path": name, **({"revision": revision} if revision else {})}


def load_model(kind: str, name: str, precision: Precision, device: str) -> Loaded:
    """Return a model of one of transformers' classes, ready to run. Code of a repository is never run.

    Raises ValueError if weights are missing: they would be random.
    """
    import torch
    import transformers

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    logs: Any = transformers.utils.logging
    bars = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()  # ours is on the screen
    try:
        model, about = getattr(transformers, kind).from_pretrained(**where(name), dtype=dtype, output_loading_info=True)
    finally:
        if bars:
            logs.enable_progress_bar()
    if missing := sorted(about["missing_keys"]):
        raise ValueError(f"{name!r} is no {kind}: it lacks the weights {', '.join(missing)[:300]}")
    return model.eval().to(device)


@lru_cache(maxsize=48)
def _loaded(kind: str, name: str) -> Any:
    import transformers

    return getattr(transformers, kind).from_pretrained(**where(name))


config_of, tokenizer_of = partial(_loaded, "AutoConfig"), partial(_loaded, "AutoTokenizer")
processor_of = partial(_loaded, "AutoImageProcessor")


def probabilities(logits: "torch.Tensor", config: Config) -> list["NDArray[np.float32]"]:
    """Return for each row an array (labels).

    Softmax over the labels; a sigmoid for each if the model may find several; the number itself if the model has one
    label, a regression.
    """
    logits = logits.float()
    if logits.shape[-1] == 1:
        found = logits
    elif config.problem_type == "multi_label_classification":
        found = logits.sigmoid()
    else:
        found = logits.softmax(-1)
    return list(found.cpu().numpy())


def _labels(model: str) -> dict[int, str]:
    return {int(place): str(name) for place, name in config_of(model).id2label.items()}


labels_of = ModelFact(_labels)  # names of a model's labels by place


@lru_cache(maxsize=64)
def label_index(model: str, label: str) -> int:
    """Return the place of a label, given its name or number. Raises ValueError that lists the model's labels."""
    names = labels_of(model)
    exact = [place for place, name in names.items() if name == label]
    alike = [place for place, name in names.items() if name.lower() == label.lower()]
    for found in (exact, alike):
        if len(found) == 1:
            return found[0]
    if label.isdecimal() and int(label) in names:
        return int(label)
    if not label and len(names) == 1:
        return next(iter(names))
    raise ValueError(f"{model!r} has no label {label!r}; it has {_listed(list(names.values()))}")


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > 20 else ""
    return ", ".join(repr(name[:60]) for name in names[:20]) + more


_KERNELS: "dict[int, Kernel]" = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def _squeezed_to(name: str) -> Geometry | None:
    processor = processor_of(name)
    if not _only_squeezes(processor):
        return None
    size = processor.size["height"], processor.size["width"]
    return Geometry(size=size, fit="both", kernel=_KERNELS[int(processor.resample)])


def _only_squeezes(processor: Any) -> bool:
    """Return whether a processor changes a picture's shape only by resizing it to a fixed height and width."""
    import numpy as np

    try:
        from transformers.image_processing_backends import PilBackend, TorchvisionBackend
    except ImportError:
        return False  # a version of transformers whose processors are unknown
    plain = any(
        all(
            getattr(type(processor), each) is getattr(backend, each) for each in ("preprocess", "_preprocess", "resize")
        )
        for backend in (PilBackend, TorchvisionBackend)
    )
    size = processor.size or {}
    fixed = bool(size.get("height") and size.get("width")) and not (
        size.get("shortest_edge") or size.get("longest_edge")
    )
    others = any(getattr(processor, each, None) for each in ("do_center_crop", "do_pad"))
    lists = all(np.shape(each) == (3,) for each in (processor.image_mean, processor.image_std))
    return (
        plain
        and fixed
        and not others
        and bool(processor.do_resize)
        and (lists or not processor.do_normalize)
        and processor.resample in _KERNELS
    )


squeezed_to = ModelFact(_squeezed_to)  # the size that a model's processor squeezes pictures to; None if it does more


@dataclass(frozen=True, kw_only=True)
class PrepareByProcessor:
    """Makes an array (3, height, width) of float32 from an image decoded at full size, by the model's processor."""

    name: str
    flip: Flip = ""

    def __call__(self, data: bytes, budget: int) -> "NDArray[np.float32]":
        """Return the array, normalised. Raises ScoreError."""
        return self.of(decode(data, budget, "exact"))

    def of(self, pixels: "Pixels") -> "NDArray[np.float32]":
        """Return the array for a decoded picture (height, width, 3)."""
        import numpy as np
        from PIL import Image

        image = Image.fromarray(np.ascontiguousarray(mirrored(pixels, self.flip)))
        made = processor_of(self.name)(images=image, return_tensors="np")["pixel_values"][0]
        return np.asarray(made, np.float32)


@lru_cache(maxsize=64)
def preparation(name: str, flip: Flip = "", how: How = "fast") -> Prepare | PrepareByProcessor:
    """Return what makes a picture for a model: its own processor, which needs the picture at full size.

    With "fast" it is our own code if that processor only squeezes pictures to a size.
    """
    geometry = None if how == "exact" else squeezed_to(name)
    return PrepareByProcessor(name=name, flip=flip) if geometry is None else Prepare(geometry=geometry, flip=flip)


def black_picture(name: str) -> "Pixels | None":
    """Return a model's input for a black picture; None if pictures differ in size."""
    import numpy as np

    prepare = preparation(name)
    return np.zeros((3, *prepare.geometry.size), np.uint8) if isinstance(prepare, Prepare) else None


def pixel_values(name: str, batch: "Sequence[NDArray[np.uint8 | np.float32]]", device: str) -> "torch.Tensor":
    """Return a tensor (n, 3, height, width) of float32 on a device: bytes are scaled and normalised, floats are ready."""
    import numpy as np
    import torch

    if len({each.dtype for each in batch}) > 1:  # of scores that decode in two ways
        return torch.cat([pixel_values(name, [each], device) for each in batch])
    pixels = torch.from_numpy(np.stack(batch)).to(device)
    if pixels.dtype != torch.uint8:
        return pixels
    processor, shape = processor_of(name), (1, 3, 1, 1)
    pixels = pixels.float()
    if processor.do_rescale:
        pixels.mul_(processor.rescale_factor)
    if processor.do_normalize:
        mean, std = (torch.tensor(each, device=device) for each in (processor.image_mean, processor.image_std))
        pixels.sub_(mean.view(shape)).div_(std.view(shape))
    return pixels
