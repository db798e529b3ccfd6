import random

import numpy as np
import pytest
from PIL import Image

from tests.pictures import smooth
from wdsflow.stages.imaging.spans import span


def spans(count):
    rng = random.Random(5)
    for _ in range(count):
        scale = rng.choice([1, 2, 4, 8])
        whole = rng.randrange(400, 5000)
        start = rng.randrange(whole - 200)
        stop = rng.randrange(start + 200, whole + 1)
        length, outputs = -(-whole // scale), rng.randrange(20, 300)
        yield (
            start / scale,
            stop / scale,
            length,
            outputs,
            span(start / scale, stop / scale, length, outputs),
        )


def test_a_span_of_whole_pixels_is_taken_as_it_is():
    exact = [found for *given, found in spans(300) if all(edge == int(edge) for edge in given[:2])]
    assert len(exact) > 50
    assert all((found.extra, found.flip, found.shift) == (0, False, 0) for found in exact)
    assert span(0, 100.25, 101, 10)[:5] == (0, 100, 0, 10.025, False)


def test_all_outputs_lie_where_the_part_has_them_but_for_the_shift_that_is_told():
    shifts = []
    for start, stop, length, count, found in spans(1000):
        step = (stop - start) / count
        wanted = start + (np.arange(count) + 0.5) * step
        places = found.begin + (found.extra + np.arange(count) + 0.5) * found.step
        if found.flip:
            places = length - places[::-1]
        error = float(np.sqrt(np.mean((places - wanted) ** 2))) / step
        assert error == pytest.approx(found.shift, rel=0.05, abs=1e-9)
        assert 0 <= found.begin < found.end <= length
        shifts.append(found.shift)
    assert np.mean(shifts) < 0.01


def test_a_part_of_whole_pixels_is_resized_as_if_it_had_been_cut_out():
    pytest.importorskip("torch")
    from wdsflow.stages.imaging.resample import resize_part

    pixels = np.array(smooth(300, 200))
    cut = np.ascontiguousarray(pixels[20:180, 30:250])
    for size in ((50, 70), (160, 90), (200, 300)):
        expected = resize_part(cut, (0, 0, 220, 160), size)
        assert np.array_equal(resize_part(pixels, (30, 20, 250, 180), size), expected)


@pytest.mark.parametrize("kernel", ["bicubic", "bilinear"])
def test_a_part_between_pixels_is_nearly_what_pillow_makes_of_it(kernel, monkeypatch):
    pytest.importorskip("torch")
    from wdsflow.stages.imaging import resample as part

    pixels = np.array(smooth(300, 200))
    for box in (
        (30.5, 20, 250, 180.25),
        (0, 11.125, 280.25, 199.5),
        (100.25, 50.25, 290.5, 190.75),
    ):
        found = part.resize_part(pixels, box, (60, 70), kernel).astype(int)
        with monkeypatch.context() as patch:
            patch.setattr(part, "has_torch", lambda: False)
            expected = part.resize_part(pixels, box, (60, 70), kernel)
        assert np.abs(found - expected)[3:-3, 3:-3].mean() < 1


@pytest.mark.parametrize("kernel", ["bicubic", "bilinear"])
def test_without_torch_a_part_is_what_pillow_makes_of_it(kernel, monkeypatch):
    from wdsflow.stages.imaging import resample as part

    monkeypatch.setattr(part, "has_torch", lambda: False)
    image = smooth(40, 30)
    how = Image.Resampling[kernel.upper()]
    for box in ((0, 0, 40, 30), (3, 2, 31, 29), (39, 29, 40, 30)):
        found = part.resize_part(np.array(image), box, (12, 17), kernel)
        assert np.array_equal(found, np.array(image.crop(box).resize((17, 12), how))), box
    for box in (
        (3.5, 2, 31, 29),
        (3, 2.25, 40, 30),
        (0.5, 0.5, 39.75, 29.5),
        (3.5, 2, 40.0004, 30.0004),
    ):
        within = (box[0], box[1], min(box[2], 40), min(box[3], 30))
        found = part.resize_part(np.array(image), box, (12, 17), kernel)
        assert np.array_equal(found, np.array(image.resize((17, 12), how, box=within))), box
