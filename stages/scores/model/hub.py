"""Models of transformers, in a folder or a hub: loading, labels, tokens of captions, preparation of pictures."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.memory.precision import UsedPrecision

from ..picture_decoding import decoded
from .model_score import Loaded, ModelFact, local_path
from .pictures import Flip, Geometry, Prepare, Scale, mirrored

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from ...imaging.torch_kernel import Kernel
    from .pictures import Pixels


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


def load_model(kind: str, name: str, precision: UsedPrecision, device: str) -> Loaded:
    """Return a model of one of transformers' classes, ready to run. Code of a repository is never run.

    Raises ValueError if weights are missing: they would be random.
    """
    import torch
    import transformers

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    logs: Any = transformers.utils.logging
    bars = logs.is_progress_bar_enabled()
    # It would break the progress bar of the run.
    logs.disable_progress_bar()
    try:
        model, about = getattr(transformers, kind).from_pretrained(
            **where(name), dtype=dtype, output_loading_info=True
        )
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


config_of = partial(_loaded, "AutoConfig")
tokenizer_of = partial(_loaded, "AutoTokenizer")
processor_of = partial(_loaded, "AutoImageProcessor")


def probabilities(logits: "torch.Tensor", problem: str | None) -> list["NDArray[np.float32]"]:
    """Return an array (labels) for each row of logits, by the ``problem_type`` in the model's configuration.

    Softmax over the labels; sigmoids if several labels may apply; the number itself if the model
    has a single label (a regression).
    """
    logits = logits.float()
    if logits.shape[-1] > 1:
        logits = logits.sigmoid() if problem == "multi_label_classification" else logits.softmax(-1)
    return list(logits.cpu().numpy())


@ModelFact
def labels_of(model: str) -> dict[int, str]:
    """Return the names of a model's labels by place."""
    return {int(place): str(name) for place, name in config_of(model).id2label.items()}


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


# Pillow's numbers.
_KERNELS: "dict[int, Kernel]" = {2: "bilinear", 3: "bicubic"}


@ModelFact
def squeezed_to(name: str) -> Geometry | None:
    """Return the size to which a model's processor resizes pictures; None if it does more."""
    import numpy as np

    try:
        from transformers.image_processing_backends import PilBackend, TorchvisionBackend
    except ImportError:
        # A version of transformers whose processors are unknown.
        return None
    processor: Any = processor_of(name)
    own, methods = type(processor), ("preprocess", "_preprocess", "resize")
    plain = any(
        all(getattr(own, each) is getattr(backend, each) for each in methods)
        for backend in (PilBackend, TorchvisionBackend)
    )
    size = processor.size or {}
    height, width = size.get("height"), size.get("width")
    others = size.get("shortest_edge") or size.get("longest_edge")
    others = others or any(getattr(processor, each, None) for each in ("do_center_crop", "do_pad"))
    lists = all(np.shape(each) == (3,) for each in (processor.image_mean, processor.image_std))
    scales = lists or not processor.do_normalize
    if not (plain and height and width and processor.do_resize and scales) or others:
        return None
    kernel = _KERNELS.get(processor.resample)
    return Geometry(size=(height, width), fit="both", kernel=kernel) if kernel else None


@dataclass(frozen=True, kw_only=True)
class PrepareByProcessor:
    """Makes an array (3, height, width) of float32 from an image decoded at full size, by the model's processor."""

    name: str
    flip: Flip = ""

    def __call__(self, data: bytes, budget: int) -> "NDArray[np.float32]":
        """Return the array, normalised. Raises ScoreError."""
        return self.of(decoded(data, budget, "exact"))

    def of(self, pixels: "Pixels") -> "NDArray[np.float32]":
        """Return the array for a decoded picture (height, width, 3)."""
        import numpy as np
        from PIL import Image

        image = Image.fromarray(np.ascontiguousarray(mirrored(pixels, self.flip)))
        made = processor_of(self.name)(images=image, return_tensors="np")["pixel_values"][0]
        return np.asarray(made, np.float32)


@lru_cache(maxsize=64)
def preparation(name: str, flip: Flip = "", how: Scale = "fast") -> Prepare | PrepareByProcessor:
    """Return the preparation of pictures for a model: by its own processor, which needs the picture at full size.

    With "fast", it is ``Prepare`` if that processor only resizes pictures.
    """
    geometry = None if how == "exact" else squeezed_to(name)
    return (
        PrepareByProcessor(name=name, flip=flip)
        if geometry is None
        else Prepare(geometry=geometry, flip=flip)
    )


def black_picture(name: str) -> "Pixels | None":
    """Return a model's input for a black picture; None if inputs differ in size."""
    import numpy as np

    prepare = preparation(name)
    return np.zeros((3, *prepare.geometry.size), np.uint8) if isinstance(prepare, Prepare) else None


def pixel_values(
    name: str, batch: "Sequence[NDArray[np.uint8 | np.float32]]", device: str
) -> "torch.Tensor":
    """Return a tensor (n, 3, height, width) of float32 on a device. Bytes are scaled and normalised, floats are not."""
    import numpy as np
    import torch

    # Of scores with different ``decode``.
    if len({each.dtype for each in batch}) > 1:
        return torch.cat([pixel_values(name, [each], device) for each in batch])
    pixels = torch.from_numpy(np.stack(batch)).to(device)
    if pixels.dtype != torch.uint8:
        return pixels
    processor, shape = processor_of(name), (1, 3, 1, 1)
    pixels = pixels.float()
    if processor.do_rescale:
        pixels.mul_(processor.rescale_factor)
    if processor.do_normalize:
        mean, std = (
            torch.tensor(each, device=device)
            for each in (processor.image_mean, processor.image_std)
        )
        pixels.sub_(mean.view(shape)).div_(std.view(shape))
    return pixels


# Tokenizers are not thread-safe.
_lock = threading.Lock()
_FILE = "tokenizer.json"
_TRIAL = "A Ne\u0301w photo, of\ttwo  DOGS\u2019 n\u00e4me: 1,234 \u732b\U0001f600 <b>x</b>\n"


class TextFacts(NamedTuple):
    """The facts about a model that decoders need to tokenize captions.

    ``file``: a tokenizer.json that the library tokenizers can read by itself; "" if transformers is
    needed. ``side``: the side at which a long text is cut. ``bound``: the maximum number of tokens
    of model and tokenizer. ``start``: the token that begins a text, otherwise the one that ends it.
    """

    file: str
    side: str
    bound: int | None
    start: int | None


@ModelFact
@lru_cache(maxsize=16)
def text_facts(name: str) -> TextFacts:
    """Return the facts about a model's tokens."""
    tokenizer = tokenizer_of(name)
    # A model of pictures and texts, such as BLIP, has a configuration of its own for texts.
    config = config_of(name).get_text_config()
    bounds = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    bound = min((int(each) for each in bounds if each), default=None)
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    side = str(getattr(tokenizer, "truncation_side", "right"))
    return TextFacts(_file_of(name, tokenizer, side), side, bound, start)


def longest(name: str, most: int) -> int:
    """Return the maximum number of tokens: ``most``, or fewer if the model or its tokenizer has a lower limit."""
    return min(most, text_facts(name).bound or most)


def token_ids(name: str, text: str, most: int, *, special: bool = True) -> list[int]:
    """Return the tokens of a text, cut to ``most``, with start and end tokens if ``special``."""
    facts = text_facts(name)
    with _lock:
        if text_facts.is_shared(name) and facts.file:
            ids = _by_file(_plain(facts.file), facts.side, text, most, special=special)
        else:
            ids = _by_transformers(tokenizer_of(name), text, most, special=special)
    # Tokenizers do not cut if there is no room for start and end tokens.
    return ids[:most]


def _file_of(name: str, tokenizer: Any, side: str) -> str:
    """Return a tokenizer's file if it yields the same tokens as transformers, otherwise ""."""
    try:
        from transformers.utils.hub import cached_file

        given = where(name)
        folder, revision = given["pretrained_model_name_or_path"], given.get("revision")
        path = Path(cached_file(folder, _FILE, revision=revision, local_files_only=True) or "")
        if not path.is_file() or _rules(_plain(str(path))) != _rules(tokenizer.backend_tokenizer):
            return ""
        text = _TRIAL + " ".join(tokenizer.all_special_tokens)
        for most, special in ((512, True), (512, False), (4, True), (4, False)):
            expected = _by_transformers(tokenizer, text, most, special=special)
            if _by_file(_plain(str(path)), side, text, most, special=special) != expected:
                return ""
    except (ImportError, AttributeError, OSError, TypeError, ValueError):
        # A tokenizer of another kind.
        return ""
    return str(path.absolute())


def _rules(tokenizer: "Tokenizer") -> dict[str, object]:
    """Return the definition of a tokenizer, without the options of a call."""
    found = json.loads(tokenizer.to_str())
    return {part: value for part, value in found.items() if part not in {"truncation", "padding"}}


@lru_cache(maxsize=16)
def _plain(file: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    return tokenizer


def _by_file(
    tokenizer: "Tokenizer", side: str, text: str, most: int, *, special: bool
) -> list[int]:
    tokenizer.enable_truncation(most, direction=side)
    return list(tokenizer.encode(text, add_special_tokens=special).ids)


def _by_transformers(tokenizer: Any, text: str, most: int, *, special: bool) -> list[int]:
    found = tokenizer(
        text, truncation=True, max_length=most, add_special_tokens=special, verbose=False
    )
    return list(found["input_ids"])


def padded(
    batch: "Sequence[Sequence[int] | NDArray[np.int32]]", device: str, fill: int = 0
) -> "dict[str, torch.Tensor]":
    """Return ``input_ids`` and ``attention_mask`` (n, longest), padded on the right.

    Positions count from each text's start, so that causal attention does not see the padding.
    """
    import numpy as np
    import torch

    ids = np.full((len(batch), max(map(len, batch))), fill, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(mask).to(device),
    }
