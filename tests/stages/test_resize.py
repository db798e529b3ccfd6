import random
import sys
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from tests.pictures import encoded, exif, noise, photo, psnr, smooth
from tests.stages.stage_laws import assert_stage_laws
from wdsflow.stages import Decode, Dropped, Resize, StageError
from wdsflow.stages.imaging import resample, torch_kernel
from wdsflow.stages.imaging.boxes import box_of
from wdsflow.stages.imaging.pillow_pixels import to_array


def torchvisions(size, crop):
    transforms = pytest.importorskip("torchvision.transforms")
    steps = [transforms.Resize(size, interpolation=transforms.InterpolationMode.BICUBIC)]
    return transforms.Compose([*steps, *([transforms.CenterCrop(size)] if crop else [])])


def difference(one, other):
    one, other = np.asarray(one).astype(int), np.asarray(other).astype(int)
    assert one.shape == other.shape
    return np.abs(one - other)


def without_torch(monkeypatch):
    for module in (resample, torch_kernel):
        monkeypatch.setattr(module, "has_torch", lambda: False)


@pytest.fixture(params=["torch", "pillow"])
def kernel(request, monkeypatch):
    if request.param == "torch":
        pytest.importorskip("torch")
    else:
        without_torch(monkeypatch)
    return request.param


@pytest.mark.parametrize("crop", [False, True])
def test_sizes_and_pixels_are_torchvisions(kernel, crop):
    rng = random.Random(1)
    stage, theirs = Resize(32, crop=crop), torchvisions(32, crop)
    for number in range(30):
        image = photo(rng.randrange(10, 200), rng.randrange(10, 200), number)
        expected = theirs(image)
        assert difference(stage.resize(image), expected).max() <= 2
        resized = stage.resize(np.array(image))
        assert isinstance(resized, np.ndarray)
        assert difference(resized, expected).max() <= 2


def test_pillows_kernel_gives_the_same_bits_as_torchvision_on_pillow_images(monkeypatch):
    without_torch(monkeypatch)
    for width, height in ((96, 72), (333, 111), (50, 200)):
        image = photo(width, height)
        assert not difference(Resize(40).resize(image), torchvisions(40, crop=False)(image)).any()
        assert (
            difference(
                Resize(40, crop=True).resize(image), torchvisions(40, crop=True)(image)
            ).max()
            <= 1
        )


def test_both_sides_can_be_given(kernel):
    image = photo(96, 72)
    assert (
        difference(Resize((20, 50)).resize(image), torchvisions((20, 50), crop=False)(image)).max()
        <= 2
    )


def test_a_very_long_picture_takes_no_more_than_its_crop(kernel):
    image = photo(2000, 3)
    assert (
        difference(Resize(64, crop=True).resize(image), torchvisions(64, crop=True)(image)).max()
        <= 1
    )
    assert Resize(224, crop=True).resize(Image.new("RGB", (60_000, 1))).size == (224, 224)
    with pytest.raises(Dropped, match="too-long"):
        Resize(224).resize(Image.new("RGB", (60_000, 1)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("output", ["pil", "numpy"])
def test_exact_decoding_and_resizing_is_at_most_two_levels_off(kernel, output):
    decode, resize, theirs = (
        Decode(mode="exact", output=output),
        Resize(224, crop=True),
        torchvisions(224, crop=True),
    )
    differences = []
    for seed, options in enumerate(
        ({}, {"subsampling": 0}, {"progressive": True}, {"quality": 95})
    ):
        image = smooth(700, 525, seed)
        data = encoded(image, "JPEG", **options)
        differences.append(
            difference(
                resize.resize(decode.decode(data)), theirs(Decode(mode="reference").decode(data))
            )
        )
    assert max(each.max() for each in differences) <= 2
    assert np.mean(differences) <= 0.01


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(1003, 751), (1201, 601), (500, 1300)])
def test_fast_decoding_is_within_45_decibels_of_exact(kernel, kind, size):
    data = encoded(smooth(*size), kind)
    resize = Resize(112, crop=True)
    for output in ("pil", "numpy"):
        small = Decode(target=112, output=output).decode(data)
        assert np.asarray(small).shape[0] <= size[1] // 2 + 1
        assert psnr(resize.resize(small), resize.resize(Decode(mode="exact").decode(data))) >= 45


@pytest.mark.deep
def test_a_finer_scale_is_closer():
    data, resize = encoded(smooth(1300, 1003), "JPEG"), Resize(100, crop=True)
    exact = resize.resize(Decode(mode="exact").decode(data))
    quality = [
        psnr(resize.resize(Decode(target=100, k=k).decode(data)), exact) for k in (1.5, 3, 6)
    ]
    assert quality == sorted(quality)


@pytest.mark.sample(5)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_part_that_is_the_picture_is_known_also_when_turned(kernel, orientation):
    # 8 pixels become one, and the last column and row stand for one pixel only: taken whole they
    # would shift all.
    data = encoded(smooth(641, 401), "JPEG", exif=exif(orientation), quality=95)
    for output in ("pil", "numpy"):
        small = Decode(target=20, orientation="apply", output=output).decode(data)
        full = Decode(mode="exact", orientation="apply", output=output).decode(data)
        left, top, right, bottom = box_of(small)
        assert sorted((right - left, bottom - top)) == [401 / 8, 641 / 8]
        assert psnr(Resize(20).resize(small), Resize(20).resize(full)) >= 45


def test_a_box_is_forgotten_when_the_image_was_cut():
    data = encoded(smooth(641, 401), "JPEG")
    image, array = (Decode(target=20, output=output).decode(data) for output in ("pil", "numpy"))
    assert box_of(image) == box_of(array) == (0, 0, 641 / 8, 401 / 8)
    assert box_of(image.crop((0, 0, 30, 30))) == (0, 0, 30, 30)
    assert box_of(array[:30, :30]) == (0, 0, 30, 30)


def test_arrays_that_cannot_be_written_to_are_resized(kernel):
    array = np.array(photo(96, 72))
    array.setflags(write=False)
    expected = Resize(30).resize(np.array(photo(96, 72)))
    assert np.array_equal(Resize(30).resize(array), expected)
    assert np.array_equal(Resize(30).resize(array[:, ::-1])[:, ::-1], expected)


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        photo().convert("L"),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_what_is_no_rgb_image_has_a_name(value):
    stage = Resize(4, on_error="drop")
    assert list(stage([{"__key__": "a", "jpg": value}, {"__key__": "b"}])) == []
    assert stage.counts.failed == {"not-pixels": 1, "no-image": 1}


def test_resize_keeps_the_laws_of_stages():
    for convert in (np.array, lambda image: image):
        samples = [{"__key__": str(seed), "png": convert(photo(seed=seed))} for seed in range(4)]
        out = assert_stage_laws(Resize(24, crop=True), samples)
        assert all(np.asarray(sample["png"]).shape == (24, 24, 3) for sample in out)


def test_a_scaled_array_keeps_its_box_when_pickled():
    import pickle

    array = Decode(target=20, output="numpy").decode(encoded(smooth(641, 401), "JPEG"))
    again = pickle.loads(pickle.dumps(array))
    assert np.array_equal(again, array)
    assert box_of(again) == box_of(array) == (0, 0, 641 / 8, 401 / 8)


def test_torch_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    torch_kernel.has_torch.cache_clear()
    try:
        assert not torch_kernel.has_torch()
        assert Resize(20, crop=True).resize(np.array(photo())).shape == (20, 20, 3)
    finally:
        torch_kernel.has_torch.cache_clear()


@pytest.mark.parametrize(
    "arguments",
    [{"size": 0}, {"size": 3, "on_error": "skip"}, {"size": (1, 2, 3)}, {"size": 3, "fields": ()}],
)
def test_options_that_make_no_sense_are_refused(arguments):
    with pytest.raises((ValueError, StageError)):
        Resize(**arguments)


@pytest.mark.parametrize("size", [(1, 1), (300, 200), (40_000, 3), (3, 40_000), (1, 32_769)])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_an_image_is_an_array_of_the_same_pixels(mode, size):
    image = noise(*size).convert(mode)
    assert np.array_equal(to_array(image), np.asarray(image))


def test_an_array_of_an_image_takes_little_more_memory_than_its_pixels():
    image = noise(1500, 1000)
    image.load()
    tracemalloc.start()
    pixels = to_array(image)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * pixels.nbytes


def test_a_rule_for_encoded_images_refuses_decoded_ones():
    stage = Resize("64", on_error="drop")
    for image in (photo(), np.array(photo())):
        with pytest.raises(StageError) as caught:
            stage.resize(image)
        assert caught.value.slug == "not-bytes"
        assert str(caught.value).endswith(
            "it is decoded: '64' is for encoded images, before Decode"
        )
