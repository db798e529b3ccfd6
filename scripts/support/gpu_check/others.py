"""Smaller checks: EasyOCR's detector, random states, the feed."""

import io
from pathlib import Path
from typing import Any

from ..small_shards import write_small_shards
from .finding import Finding, Setting, needs

_SIDE = 640


def text_detection(setting: Setting) -> list[Finding]:
    """Find the same share of text on the device as on the CPU."""
    needs("easyocr", "easyocr_en_models", "shapely")
    import time

    from support.one_score import compute
    from wdsflow.stages.scores.model.text_in_pictures import OcrArea

    picture = _page()
    begun = time.perf_counter()
    here = compute(OcrArea(), {"jpg": picture}, setting.device)
    seconds = time.perf_counter() - begun
    there = compute(OcrArea(), {"jpg": picture}, "cpu") if setting.cuda else here
    assert isinstance(here, float)
    assert isinstance(there, float)
    told = f"{here:.4f}, on the CPU {there:.4f}; {seconds:.1f} s with loading"
    met = abs(here - there) <= 0.005 and here > 0.01
    return [Finding("ocr_area of a page of text", told, "within 0.005 of the CPU", met, {"here": here, "cpu": there})]


def random_states(setting: Setting) -> list[Finding]:
    """Draw the same numbers again after the states were stored as training stores them."""
    import random

    import numpy as np
    import torch

    from wdsflow.training.launch.checkpoints import capture, restore

    def draw() -> list[Any]:
        own = [random.random(), float(np.random.random()), torch.rand(4).tolist()]  # noqa: NPY002 - it is what is stored
        return [*own, torch.rand(1000, device=setting.device).tolist()]

    draw()
    stored = io.BytesIO()
    torch.save(capture(setting.device), stored)
    first = draw()
    draw()
    stored.seek(0)
    restore(torch.load(stored, weights_only=True), setting.device)
    same = draw() == first
    return [
        Finding("random states of Python, numpy, PyTorch and the device", "same" if same else "differ", "same", same)
    ]


def feed(setting: Setting) -> list[Finding]:
    """Deliver batches, and put them on the device as a training loop does."""
    needs("open_clip_train", "webdataset", "PIL")
    import time

    import torch

    from ..bench.loading import Plan, loader

    shards, samples = (2, 64) if setting.quick else (8, 2500)
    paths = write_small_shards(Path(setting.folder, "feed"), shards, samples)
    plan = Plan("rate", batch=16 if setting.quick else 256, workers=min(shards, 8), times=2)
    data = loader("wdsflow", plan, paths * plan.times, shards * samples * plan.times)().dataloader
    begun, seen, equal, waited = 0.0, 0, True, 0.0
    for number, (images, texts) in enumerate(data):
        if number == 1:  # after the start of the workers
            begun, seen, waited = time.perf_counter(), 0, 0.0
        before = time.perf_counter()
        on_device = images.to(setting.device)
        if setting.cuda:
            torch.cuda.synchronize(setting.device)
        waited += time.perf_counter() - before
        equal = equal and torch.equal(on_device.cpu(), images) if number < 4 else equal
        seen += len(texts)
    rate = seen / (time.perf_counter() - begun)
    told = f"{rate:,.0f} samples/s, {waited / (time.perf_counter() - begun):.0%} of the time spent on copies"
    return [Finding("the feed, batches copied to the device", told, "the same pixels there", equal)]


def _page() -> bytes:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_SIDE, _SIDE), (230, 225, 215))
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(36)
    for line in range(6):
        pen.text((40, 40 + 90 * line), f"A line of text, number {line}", fill=(20, 20, 40), font=font)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=92)
    return stream.getvalue()
