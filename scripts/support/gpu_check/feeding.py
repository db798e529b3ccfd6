"""A training step on the real feed, compared with one on batches on the device."""

import os
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from ..small_shards import write_small_shards
from .finding import Finding, Setting, needs

# Outputs of a model, in the order in which its loss takes them.
_FEATURES = ("image_features", "text_features", "logit_scale")
# Batches whose pixels are compared.
_CHECKED = 3
# Steps between two that wait for the device, OpenCLIP's --log-every-n-steps.
_LOGGED = 100


def feed(setting: Setting) -> Iterator[Finding]:
    """Train a ViT-B-32 in bf16 autocast on the feed, and report the device's waiting time."""
    needs("open_clip_train", "webdataset", "PIL")
    from ..bench.loading import Plan, loader

    shards, samples, batch = (2, 32, 2) if setting.quick else (16, 500, 256)
    paths = write_small_shards(Path(setting.folder, "feed"), shards, samples)
    plan = Plan("rate", batch=batch, workers=min(shards, os.cpu_count() or 1), times=10)
    data = loader("wdsflow", plan, paths * plan.times, shards * samples * plan.times)().dataloader
    training = _Training(setting)
    batches = iter(data)
    # Batches that stay on the device.
    kept: list[tuple[Any, Any]] = []
    are_equal = True
    for _ in range(_CHECKED):
        images, texts = next(batches)
        moved_images, moved_texts = training.moved(images, texts)
        kept.append((moved_images, moved_texts))
        are_equal &= bool((moved_images.cpu() == images).all())
    value = "the same" if are_equal else "differ"
    yield Finding("pixels of the feed on the device", value, "the same", are_equal)
    seconds = 1.0 if setting.quick else min(setting.seconds, setting.remaining / 4)
    resident = training.rate(cycle(kept), seconds, move=False)
    fed = training.rate(batches, seconds, move=True)
    value = (
        f"{fed:,.0f} samples/s, {resident:,.0f} on batches kept on the device: the device waits"
        f" {max(0.0, 1 - fed / resident):.0%} of the time"
    )
    details = {"fed": fed, "resident": resident}
    yield Finding("training a ViT-B-32 in bf16 autocast on the feed", value, "", None, details)


class _Training:
    """A model on the device, and training steps of it."""

    def __init__(self, setting: Setting) -> None:
        import open_clip
        import torch

        self._device = torch.device(setting.device)
        torch.manual_seed(0)
        if setting.quick:
            config: Any = open_clip.get_model_config("ViT-B-32")
            parts = {name: {**config[name], "layers": 1} for name in ("vision_cfg", "text_cfg")}
            model: Any = open_clip.model.CLIP(config["embed_dim"], **parts)
        else:
            model = open_clip.create_model("ViT-B-32")
        self._model = model.train().to(self._device)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-5)
        self._loss = open_clip.ClipLoss()
        self._steps = 0

    def moved(self, images: Any, texts: Any) -> tuple[Any, Any]:
        """Return a batch on the device, as open_clip_train moves it."""
        return images.to(self._device, non_blocking=True), texts.to(self._device, non_blocking=True)

    def rate(self, batches: Iterator[Any], seconds: float, *, move: bool) -> float:
        """Return samples a second, after a first step."""
        images, texts = next(batches)
        self._step(*(self.moved(images, texts) if move else (images, texts)))
        self._wait()
        samples = 0
        start = time.perf_counter()
        for images, texts in batches:
            samples += len(texts)
            self._step(*(self.moved(images, texts) if move else (images, texts)))
            if time.perf_counter() - start > seconds:
                break
        self._wait()
        return samples / (time.perf_counter() - start)

    def _wait(self) -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _step(self, images: Any, texts: Any) -> None:
        import torch

        with torch.autocast(self._device.type, torch.bfloat16):
            features = self._model(images, texts)
            if not isinstance(features, tuple):
                features = tuple(features[name] for name in _FEATURES)
            image, text, scale = features
            loss = self._loss(image, text, scale)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        if self._steps % _LOGGED == 0:
            # As logging does; it waits for the device.
            float(loss.detach())
        self._steps += 1
