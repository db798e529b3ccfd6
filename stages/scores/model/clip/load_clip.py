"""CLIPs of OpenCLIP, loaded once per device."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from wdsflow.memory.precision import UsedPrecision

from ..model_files import local_path
from .clip_config import LOCAL, Preprocess, clip_preprocess, full_name, geometry_of
from .text_tower import TextTower

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from open_clip import CLIP

    from ..pictures.prepare import Pixels
    from .clip_tokens import Tokens

    # Of texts or pictures, (n, d).
    Embeddings = NDArray[np.float32]

# By model, pretrained, precision and device.
loaded_clips: "WeakValueDictionary[tuple[str, ...], Clip]" = WeakValueDictionary()
_lock = threading.Lock()


class Clip:
    """A loaded model on a device; freed when no longer referenced."""

    def __init__(
        self, model: "CLIP", precision: UsedPrecision, device: str, preprocess: Preprocess
    ) -> None:
        import torch
        from open_clip import get_input_dtype

        self.model = model
        self.device = device
        self.text = TextTower(model)
        self.dtype = get_input_dtype(precision)
        shape = (1, 3, 1, 1)
        self.mean = torch.tensor(preprocess["mean"], device=device).view(shape)
        self.std = torch.tensor(preprocess["std"], device=device).view(shape)

    def images(self, batch: "Pixels") -> "Embeddings":
        """Return embeddings of images, float32 (n, d), of length 1.

        The input is an array (n, 3, height, width) of uint8.
        """
        import torch

        pixels = torch.from_numpy(batch).to(self.device, non_blocking=True).float()
        pixels.div_(255).sub_(self.mean).div_(self.std)
        if self.dtype is not None:
            pixels = pixels.to(self.dtype)
        return self._normalised(self.model.encode_image(pixels))

    def texts(self, batch: "Tokens") -> "Embeddings":
        """Return embeddings of texts, float32 (n, d), of length 1.

        The input is tokens (n, up to the context length): see ``TextTower``.
        """
        import torch

        tokens = torch.from_numpy(batch).to(self.device).long()
        # Fewer shapes, of which kernels for masks prefer multiples of 8.
        if self.device.startswith("cuda"):
            length = tokens.shape[1]
            most = max(0, self.text.context - length)
            tokens = torch.nn.functional.pad(tokens, (0, min(-length % 8, most)))
        return self._normalised(self.text(tokens))

    def _normalised(self, features: "torch.Tensor") -> "Embeddings":
        """Return features (n, d) on any device as vectors of length 1 in memory."""
        import torch

        return torch.nn.functional.normalize(features.float(), dim=-1).cpu().numpy()


def load_clip(model: str, pretrained: str, precision: UsedPrecision, device: str) -> Clip:
    """Return a model, the same object as long as it is referenced.

    Raises ValueError, and errors of OpenCLIP.

    ``pretrained`` is a tag of OpenCLIP, or a file of weights or checkpoint of open_clip_train; it
    may be "" if ``model`` is "local-dir:FOLDER" or "hf-hub:NAME" with weights in it.
    """
    key = (model, pretrained, precision, device)
    # Two concurrent loads would take twice the memory.
    with _lock:
        clip = loaded_clips.get(key)
        if clip is None:
            clip = _load(model, pretrained, precision, device)
            loaded_clips[key] = clip
        return clip


def trims_padding(model: str, pretrained: str, precision: UsedPrecision) -> bool:
    """Return whether a model that is loaded on some device skips the padding of captions."""
    for key, clip in list(loaded_clips.items()):
        if key[:3] == (model, pretrained, precision) and clip.text.trims:
            return True
    return False


def _load(model: str, pretrained: str, precision: UsedPrecision, device: str) -> Clip:
    import open_clip

    name = full_name(model)
    path = local_path(pretrained)
    if name.startswith(LOCAL) and path is not None:
        with _without_weights_warnings():
            net = open_clip.create_model(
                name, load_weights=False, pretrained_text=False, precision=precision
            )
        open_clip.load_checkpoint(net, str(path))
    else:
        tag = str(path or pretrained)
        net = open_clip.create_model(
            name, tag or None, precision=precision, require_pretrained=True
        )
    preprocess = clip_preprocess(model, pretrained)
    expected = open_clip.get_model_preprocess_cfg(net)
    if geometry_of(expected) != geometry_of(preprocess):
        raise ValueError(
            f"{model}: pictures were to be prepared as {preprocess}, but it was made for {expected}"
        )
    return Clip(net.eval().to(device), precision, device, {**preprocess, **expected})


@contextmanager
def _without_weights_warnings() -> Iterator[None]:
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
