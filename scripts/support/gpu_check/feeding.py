"""A training step on batches of the real feed, beside the same step on batches that are on the device."""

import os
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from ..small_shards import write_small_shards
from .finding import Finding, Setting, needs

# Batches whose pixels are compared.
_CHECKED = 3
# Steps between two that wait for the device, OpenCLIP's --log-every-n-steps.
_LOGGED = 100


def feed(setting: Setting) -> Iterator[Finding]:
    """Train a ViT-B-32 in bf16 autocast on the feed, and say how long the device waits for it."""
    needs("open_clip_train", "webdataset", "PIL")
    from ..bench.loading import Plan, loader

    shards, samples, batch = (2, 32, 2) if setting.quick else (16, 500, 256)
    paths = write_small_shards(Path(setting.folder, "feed"), shards, samples)
    plan = Plan("rate", batch=batch, workers=min(shards, os.cpu_count() or 1), times=10)
    data = loader("wdsflow", plan, paths * plan.times, shards * samples * plan.times)().dataloader
    training = _Training(setting)
    batches = iter(data)
    kept, equal = [], True
    for images, texts in (next(batches) for _ in range(_CHECKED)):
        kept.append(training.moved(images, texts))
        equal = equal and bool((kept[-1][0].cpu() == images).all())
    yield Finding(
        "pixels of the feed on the device", "the same" if equal else "differ", "the same", equal
    )
    seconds = 1.0 if setting.quick else min(setting.seconds, setting.left / 4)
    resident = training.rate(cycle(kept), seconds, move=False)
    fed = training.rate(batches, seconds, move=True)
    told = (
        f"{fed:,.0f} samples/s, {resident:,.0f} on batches kept on the device: the device waits"
        f" {max(0.0, 1 - fed / resident):.0%} of the time"
    )
    details = {"fed": fed, "resident": resident}
    yield Finding("training a ViT-B-32 in bf16 autocast on the feed", told, "", None, details)


class _Training:
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
        self._step(*(self.moved(*next(batches)) if move else next(batches)))
        self._wait()
        done, begun = 0, time.perf_counter()
        for images, texts in batches:
            done += len(texts)
            self._step(*(self.moved(images, texts) if move else (images, texts)))
            if time.perf_counter() - begun > seconds:
                break
        self._wait()
        return done / (time.perf_counter() - begun)

    def _wait(self) -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _step(self, images: Any, texts: Any) -> None:
        import torch

        with torch.autocast(self._device.type, torch.bfloat16):
            features = self._model(images, texts)
            image, text, scale = (
                features if isinstance(features, tuple) else (features[name] for name in _FEATURES)
            )
            loss = self._loss(image, text, scale)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        if self._steps % _LOGGED == 0:
            # As logging does; it waits for the device.
            float(loss.detach())
        self._steps += 1


_FEATURES = ("image_features", "text_features", "logit_scale")
