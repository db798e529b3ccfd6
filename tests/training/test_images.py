import contextlib
import io
import pickle
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tests.pictures import encoded, exif, photo, smooth, usual_images
from wdsflow.stages import Dropped, StageError
from wdsflow.training.pixels.image_work import TransformError, image_work

torch = pytest.importorskip("torch")
image_transform = pytest.importorskip("open_clip.transform").image_transform
transforms = pytest.importorskip("torchvision.transforms")
BICUBIC = transforms.InterpolationMode.BICUBIC
SIDE = 48

KNOWN = {
    "eval": image_transform(SIDE, is_train=False),
    "eval-bilinear": image_transform(SIDE, is_train=False, interpolation="bilinear"),
    "eval-oblong": image_transform((40, 56), is_train=False),
    "squash": image_transform(
        (40, 56), is_train=False, resize_mode="squash", mean=(0.1, 0.2, 0.3), std=0.5
    ),
    "longest": image_transform(SIDE, is_train=False, resize_mode="longest", fill_color=9),
    "longest-oblong": image_transform((40, 56), is_train=False, resize_mode="longest"),
    "train": image_transform(SIDE, is_train=True),
    "train-oblong": image_transform((40, 56), is_train=True, aug_cfg={"scale": (0.1, 0.9)}),
    "train-bilinear": transforms.Compose(
        [
            transforms.RandomResizedCrop(SIDE),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.2,) * 3),
        ]
    ),
}
SIZES = ((96, 72), (48, 48), (47, 130), (200, 149), (31, 20), (300, 40))
known = pytest.mark.parametrize("preprocess", KNOWN.values(), ids=KNOWN)


def steps_of(preprocess, before=(), after=(), start=0, end=None):
    return transforms.Compose([*before, *preprocess.transforms[start:end], *after])


def picture(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of palettes with transparency
        return Image.open(io.BytesIO(data)).convert("RGB")


def openclips(preprocess, data, seed=0):
    torch.manual_seed(seed)
    return preprocess(picture(data))


def ours(work, data, seed=0):
    return work.collate([work.run(data, seed)])[0]


def levels(one, other, preprocess):
    """Return by how many levels of 0 to 255 two normalised images differ."""
    std = torch.tensor(preprocess.transforms[-1].std).view(3, 1, 1)
    assert one.shape == other.shape
    return ((one - other).abs() * std * 255).double()


def psnr(one, other):
    error = (one.astype(float) - other) ** 2
    return 10 * np.log10(255**2 / max(float(error.mean()), 1e-9))


def states():
    kind, numbers, *rest = np.random.get_state()  # noqa: NPY002 - what others draw from
    return (
        random.getstate(),
        (kind, np.asarray(numbers).tolist(), *rest),
        torch.get_rng_state().tolist(),
    )


@pytest.mark.sample(1)
@known
def test_reference_is_equal_to_openclips_transform_in_every_bit(preprocess):
    work = image_work(preprocess, mode="reference")
    assert work.recognised
    for seed, size in enumerate(SIZES):
        for kind in ("JPEG", "PNG"):
            data = encoded(photo(*size, seed), kind)
            for draw in (seed, seed + 100, seed + 2**40):
                assert torch.equal(ours(work, data, draw), openclips(preprocess, data, draw))


@pytest.mark.sample(1)
@known
def test_exact_is_at_most_two_levels_off(preprocess):
    work = image_work(preprocess, mode="exact")
    found = []
    for seed, (width, height) in enumerate(SIZES):
        data = encoded(smooth(2 * width, 2 * height, seed), "JPEG")
        found += [
            levels(ours(work, data, draw), openclips(preprocess, data, draw), preprocess).flatten()
            for draw in range(3)
        ]
    differences = torch.cat(found)
    assert differences.max() < 2.1
    assert differences.mean() <= 0.01


def test_exact_is_as_close_where_pillow_resizes_down_before_across():
    portrait = encoded(smooth(250, 340), "JPEG")
    for preprocess in (image_transform(224, is_train=True), image_transform(224, is_train=False)):
        mine = ours(image_work(preprocess, mode="exact"), portrait, 1)
        assert levels(mine, openclips(preprocess, portrait, 1), preprocess).mean() <= 0.01


@pytest.mark.parametrize("size", [(261, 228), (228, 261), (224, 261), (230, 224)])
def test_a_result_as_wide_as_the_picture_is_resized_too(size):
    preprocess = image_transform(224, is_train=False)
    data = encoded(smooth(*size), "JPEG")
    mine = ours(image_work(preprocess, mode="exact"), data)
    assert levels(mine, openclips(preprocess, data), preprocess).max() < 2.1


def test_crops_are_those_that_torchvision_draws():
    from wdsflow.training.pixels.random_part import random_part

    tried = set()
    for seed in range(300):
        rng = random.Random(seed)
        width, height = rng.randrange(1, 900), rng.randrange(1, 900)
        scale, ratio = (
            rng.choice([(0.9, 1.0), (0.08, 1.0), (0.5, 0.5)]),
            rng.choice([(0.75, 4 / 3), (0.2, 0.3), (2, 5)]),
        )
        torch.manual_seed(seed)
        top, left, down, across = transforms.RandomResizedCrop.get_params(
            Image.new("L", (width, height)), scale, ratio
        )
        assert random_part(width, height, scale, ratio, seed) == (
            left,
            top,
            left + across,
            top + down,
        )
        tried.add((left > 0, across < width))
    assert len(tried) == 3


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    "preprocess", [KNOWN["train"], KNOWN["train-oblong"]], ids=["train", "train-oblong"]
)
def test_fast_crops_are_within_45_decibels_of_exact_ones(preprocess, kind):
    exact, fast = image_work(preprocess, mode="exact"), image_work(preprocess, mode="fast")
    quality = []
    for seed, size in enumerate([(803, 601), (901, 501), (450, 900), (640, 480)]):
        data = encoded(smooth(*size), kind, **({"quality": 95} if kind == "JPEG" else {}))
        draws = range(6 * seed, 6 * seed + 6)
        quality += [psnr(fast.run(data, draw), exact.run(data, draw)) for draw in draws]
    assert np.median(quality) < 70, "most of them were decoded smaller"
    assert np.mean(quality) >= 45
    assert min(quality) >= 40


@pytest.mark.deep
def test_fast_whole_images_are_within_48_decibels_of_exact_ones():
    exact, fast = (image_work(KNOWN["eval"], mode=mode) for mode in ("exact", "fast"))
    for size in ((1003, 751), (500, 1300)):
        data = encoded(smooth(*size), "JPEG", quality=95)
        assert 48 <= psnr(fast.run(data, 0), exact.run(data, 0)) < 70


def test_fast_decodes_no_more_than_the_crop_needs():
    told = []

    def hold(peak):
        told.append(peak)
        return contextlib.nullcontext()

    data = encoded(photo(1200, 900), "JPEG")
    for mode in ("exact", "fast"):
        image_work(KNOWN["train"], mode=mode).run(data, 1, hold)
    assert told[1] < told[0] / 5


@pytest.mark.sample(1)
@known
def test_all_kinds_of_images_take_the_same_geometry(preprocess):
    work = image_work(preprocess, mode="exact")
    pictures = usual_images()
    names = [
        name
        for name in pictures
        if name.endswith(("(96, 72)", "30000")) or "RGBA" in name or "png-P" in name
    ]
    assert len(names) > 30
    for name in names:
        data = pictures[name]
        difference = levels(ours(work, data, 5), openclips(preprocess, data, 5), preprocess)
        assert difference.max() < 2.1, name


def test_a_picture_that_pillow_turns_is_cropped_as_it_is_then():
    data = encoded(smooth(160, 90), "TIFF", exif=exif(6))
    for mode in ("reference", "exact", "fast"):
        mine = ours(image_work(KNOWN["train-oblong"], mode=mode), data, 3)
        theirs = openclips(KNOWN["train-oblong"], data, 3)
        assert levels(mine, theirs, KNOWN["train-oblong"]).max() < 2.1


@known
@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
def test_known_transforms_leave_the_global_generators_alone(preprocess, mode):
    work, data = image_work(preprocess, mode=mode), encoded(photo(), "JPEG")
    before = states()
    one = work.run(data, 7)
    assert states() == before
    torch.manual_seed(1)
    assert np.array_equal(work.run(data, 7), one)
    assert work.shape == (3, *one.shape[1:])


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
def test_known_transforms_run_in_several_threads_and_after_pickling(mode):
    images = [
        encoded(smooth(400 + 3 * seed, 300, seed), kind)
        for seed, kind in enumerate(["JPEG", "PNG", "WEBP"] * 2)
    ]
    jobs = [(data, seed) for seed, data in enumerate(images)]
    for preprocess in (KNOWN["train"], KNOWN["eval"]):
        work = image_work(preprocess, mode=mode)
        expected = [work.run(*job) for job in jobs]
        again = pickle.loads(pickle.dumps(work))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(again.run, *zip(*jobs * 4, strict=True)))
        assert all(map(np.array_equal, found, expected * 4))


def flipped(image):
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "preprocess",
    [
        image_transform(
            SIDE, is_train=True, aug_cfg={"color_jitter": (0.1,) * 4, "color_jitter_prob": 0.5}
        ),
        image_transform(SIDE, is_train=True, aug_cfg={"gray_scale_prob": 0.2}),
        transforms.ToTensor(),
        transforms.Compose([transforms.ToTensor()]),
        steps_of(KNOWN["train"], before=[flipped]),
        steps_of(KNOWN["train"], after=[torch.neg]),
        steps_of(KNOWN["train"], end=-1),
        steps_of(KNOWN["eval"], start=1),
        steps_of(KNOWN["eval"], before=[transforms.Resize(SIDE)]),
        transforms.Compose([transforms.Resize(SIDE), *KNOWN["squash"].transforms[1:]]),
        transforms.Compose([transforms.Resize(SIDE + 1, BICUBIC), *KNOWN["eval"].transforms[1:]]),
        transforms.Compose(
            [transforms.Resize(SIDE, BICUBIC, max_size=90), *KNOWN["eval"].transforms[1:]]
        ),
        transforms.Compose(
            [
                transforms.Resize(SIDE, transforms.InterpolationMode.LANCZOS),
                *KNOWN["eval"].transforms[1:],
            ]
        ),
        transforms.Compose([*KNOWN["train"].transforms[:-1], transforms.Normalize(0.5, 0.5)]),
        type("Mine", (transforms.Compose,), {})(KNOWN["train"].transforms),
        flipped,
    ],
)
def test_other_transforms_are_unknown_and_get_the_picture_in_full(preprocess):
    work = image_work(preprocess)
    assert not work.recognised
    assert work.shape is None
    for data in (encoded(smooth(1200, 900), "JPEG"), encoded(photo(), "PNG")):
        result = work.run(data, 11)
        random.seed(11)
        np.random.seed(11)  # noqa: NPY002
        expected = openclips(preprocess, data, 11)
        assert np.array_equal(np.asarray(result), np.asarray(expected))


def test_timms_transforms_are_unknown():
    pytest.importorskip("timm")
    assert not image_work(
        image_transform(SIDE, is_train=True, aug_cfg={"use_timm": True})
    ).recognised


def drawing(image):
    return torch.tensor([random.random(), np.random.random(), torch.rand(1).item(), image.width])  # noqa: NPY002


def test_unknown_transforms_draw_by_the_seed():
    work, data = image_work(drawing), encoded(photo(), "JPEG")
    for seed in (0, 5, 2**40):
        one = work.run(data, seed)
        drawing(picture(data))
        assert torch.equal(work.run(data, seed), one)
    assert len({tuple(work.run(data, seed).tolist()) for seed in range(20)}) == 20


def test_unknown_transforms_get_openclips_pixels_in_mode_reference():
    deep = encoded(
        Image.fromarray(np.arange(0, 60_000, 50, dtype=np.uint16).reshape(30, 40)), "PNG"
    )
    assert np.array_equal(
        np.asarray(image_work(np.asarray, mode="reference").run(deep, 0)), np.asarray(picture(deep))
    )
    assert (image_work(np.asarray).run(deep, 0) < 255).mean() > 0.9


def failing(image):
    raise ZeroDivisionError(image.size)


def test_an_error_of_the_users_transform_is_told_from_one_of_the_data():
    work = image_work(failing)
    with pytest.raises(TransformError, match=r"raised ZeroDivisionError: \(96, 72\)") as raised:
        work.run(encoded(photo(), "JPEG"), 0)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(StageError, match="<html>"):
        work.run(b"<html>", 0)


@known
@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
def test_faults_of_the_data_are_the_reasons_of_decode(preprocess, mode):
    work = image_work(preprocess, mode=mode, max_pixels=96 * 72, budget=10_000_000)
    jpeg = encoded(photo(), "JPEG")
    assert work.run(jpeg, 0).dtype == np.uint8
    for data, slug in ((b"", "not-an-image"), (jpeg[:900], "truncated"), (b"GIF89a", "truncated")):
        with pytest.raises(StageError) as raised:
            work.run(data, 0)
        assert raised.value.slug == slug
    with pytest.raises(Dropped, match="too-many-pixels"):
        work.run(encoded(photo(97, 72), "JPEG"), 0)
    with pytest.raises(Dropped, match="over-budget"):
        image_work(preprocess, mode=mode, budget=100_000).run(jpeg, 0)


@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
def test_very_long_pictures_take_no_more_than_their_middle(mode):
    line = encoded(Image.new("RGB", (60_000, 1), (9, 99, 200)), "PNG")
    for name in ("eval", "eval-oblong", "squash", "train"):
        work = image_work(KNOWN[name], mode=mode)
        pixels = work.run(line, 0)
        assert pixels.shape == work.shape
        assert np.unique(pixels.reshape(3, -1), axis=1).tolist() == [[9], [99], [200]]
    # Of which torchvision would make an image of no height.
    with pytest.raises(Dropped, match="too-long"):
        image_work(KNOWN["longest"], mode=mode).run(line, 0)


@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
@pytest.mark.parametrize(
    "preprocess", [KNOWN["train"], KNOWN["eval"], flipped], ids=["train", "eval", "unknown"]
)
def test_memory_is_held_while_an_image_is_large(preprocess, mode):
    held = []

    @contextlib.contextmanager
    def hold(peak):
        held.append(peak)
        try:
            yield
        finally:
            held.append(-peak)

    work = image_work(preprocess, mode=mode)
    for data in (encoded(photo(300, 200), "JPEG"), encoded(photo(300, 200), "PNG"), b"<html>"):
        with contextlib.suppress(StageError):
            work.run(data, 0, hold)
    assert len(held) == 4
    assert held[0] == -held[1] > 3 * 300 * 200 / 4
    assert held[2] == -held[3] > 3 * 300 * 200
    held.clear()
    larger = b"\0\0\0\x1cfreeispe" + bytes(4) + (200).to_bytes(4, "big") + (100).to_bytes(4, "big")
    # Whose header is mistaken about its size.
    work.run(encoded(photo(64, 48), "AVIF") + larger, 0, hold)
    assert [peak > 0 for peak in held] == [True, False, True, False]


@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
@pytest.mark.parametrize("name", ["eval", "squash"])
def test_a_batch_is_normalised_as_torchvision_does_it_into_the_memory_given(mode, name):
    preprocess = KNOWN[name]
    work = image_work(preprocess, mode=mode)
    height, width = work.shape[1:]
    levels = np.resize(np.arange(256, dtype=np.uint8), (2, 3, height, width))
    levels[1] = levels[1, ::-1, ::-1]
    out = torch.full((2, 3, height, width), torch.nan)
    assert work.collate(list(levels), out) is out
    for item, mine in zip(levels, out, strict=True):
        theirs = steps_of(preprocess, start=-2)(
            Image.fromarray(np.ascontiguousarray(item.transpose(1, 2, 0)))
        )
        assert (
            torch.equal(mine, theirs)
            if mode == "reference"
            else (mine - theirs).abs().max() <= 1e-6
        )
    assert torch.equal(work.collate(list(levels)), out)
    with pytest.raises(ValueError, match="float32 of"):
        work.collate(list(levels[:1]), out)
    with pytest.raises(ValueError, match="float32 of"):
        work.collate(list(levels), out.double())


def test_results_of_unknown_transforms_are_stacked_if_they_are_tensors():
    work = image_work(transforms.ToTensor())
    items = [work.run(encoded(photo(seed=seed), "PNG"), 0) for seed in range(3)]
    out = torch.zeros((3, 3, 72, 96))
    assert work.collate(items, out) is out
    assert torch.equal(out, torch.stack(items))
    assert torch.equal(work.collate(items[:2], out), torch.stack(items[:2]))
    pictures = [image_work(flipped).run(encoded(photo(), "PNG"), 0)]
    assert image_work(flipped).collate(pictures) == pictures


def test_high_depth_is_clipped_as_pillow_does_but_in_mode_fast():
    deep = encoded(
        Image.fromarray(np.arange(0, 60_000, 50, dtype=np.uint16).reshape(30, 40)), "PNG"
    )
    pixels = {
        mode: image_work(KNOWN["eval"], mode=mode).run(deep, 0)
        for mode in ("reference", "exact", "fast")
    }
    assert (pixels["reference"] == 255).mean() > 0.9
    assert (pixels["exact"] == 255).mean() > 0.9
    assert (pixels["fast"] == 255).mean() < 0.1
