"""Smaller checks: EasyOCR's detector, random states."""

import io
from typing import Any

from .finding import Finding, Setting, needs

_SIDE = 640


def text_detection(setting: Setting) -> list[Finding]:
    """Find the same share of text on the device as on the CPU."""
    needs("easyocr", "easyocr_en_models", "shapely")
    import time

    from support.one_score import compute
    from wdsflow.stages.scores.model.ocr.ocr_area import OcrArea

    picture = _page()
    start = time.perf_counter()
    on_device = compute(OcrArea(), {"jpg": picture}, setting.device)
    seconds = time.perf_counter() - start
    on_cpu = compute(OcrArea(), {"jpg": picture}, "cpu") if setting.cuda else on_device
    assert isinstance(on_device, float)
    assert isinstance(on_cpu, float)
    value = f"{on_device:.4f}, on the CPU {on_cpu:.4f}; {seconds:.1f} s with loading"
    met = abs(on_device - on_cpu) <= 0.005 and on_device > 0.01
    return [
        Finding(
            "ocr_area of a page of text",
            value,
            "within 0.005 of the CPU",
            met,
            {"here": on_device, "cpu": on_cpu},
        )
    ]


def random_states(setting: Setting) -> list[Finding]:
    """Draw the same numbers again after the states were stored as training stores them."""
    import random

    import numpy as np
    import torch

    from wdsflow.training.launch.checkpoints import capture_random_states, restore_random_states

    def draw() -> list[Any]:
        host = [random.random(), float(np.random.random()), torch.rand(4).tolist()]  # noqa: NPY002 - it is what is stored
        return [*host, torch.rand(1000, device=setting.device).tolist()]

    draw()
    stored = io.BytesIO()
    torch.save(capture_random_states(setting.device), stored)
    first = draw()
    draw()
    stored.seek(0)
    restore_random_states(torch.load(stored, weights_only=True), setting.device)
    same = draw() == first
    return [
        Finding(
            "random states of Python, numpy, PyTorch and the device",
            "same" if same else "differ",
            "same",
            same,
        )
    ]


def _page() -> bytes:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_SIDE, _SIDE), (230, 225, 215))
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(36)
    for line in range(6):
        pen.text(
            (40, 40 + 90 * line), f"A line of text, number {line}", fill=(20, 20, 40), font=font
        )
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=92)
    return stream.getvalue()
