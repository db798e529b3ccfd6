import json

import pytest
from PIL import Image

from tests.pictures import encoded, exif, noise, photo
from tests.stages.scores.fields import Counting, made, score
from wdsflow.stages.scores import SCORES, DatasetScore, Held, ScoreError, View, ViewOptions

HEADER = [
    made(name)
    for name, kind in SCORES.items()
    if kind.tier == "header" and kind.subject != "video" and not issubclass(kind, DatasetScore)
]
LARGE = encoded(noise(900, 900), "PNG")


def slug(call):
    with pytest.raises(ScoreError) as raised:
        call()
    return raised.value.slug


def test_header_scores_read_a_few_kilobytes_of_a_large_image():
    fields = Counting(jpg=LARGE)
    view = View(fields)
    for each in HEADER:
        each.score(view)
    assert fields.reads == [("jpg", 0, 4096)]
    assert view.bytes_read == 4096


def test_a_header_behind_much_exif_is_read_as_far_as_it_reaches():
    image = encoded(photo(), "JPEG", exif=exif(6, 30_000)) + bytes(500_000)
    view = View(Counting(jpg=image))
    assert made("orientation").score(view) == 6
    assert view.bytes_read < 70_000


def test_all_pixel_scores_share_one_read_and_one_decode():
    fields = Counting(jpg=LARGE)
    view = View(fields)
    for name in ("blur", "brightness", "contrast", "entropy", "is_blank", "phash"):
        made(name).score(view)
    made("near_duplicate").gather(view)
    assert fields.reads == [("jpg", 0, len(LARGE))]
    assert view.pictures()[0] is view.pictures()[0]


def test_images_are_hashed_in_parts():
    data = bytes(range(256)) * 10_000
    fields = Counting(jpg=data)
    whole = made("duplicate").gather(View(fields))
    assert len(fields.reads) > 1
    import xxhash

    assert whole == xxhash.xxh3_128(data).digest()


@pytest.mark.parametrize(
    ("names", "widths"),
    [
        (["jpg"], 10),
        (["png", "txt", "webp"], 10),
        (["png", "jpg"], 20),  # jpg comes first, as OpenCLIP has it
        (["0.jpg", "1.png"], [10, 20]),
        (["10.jpg", "9.jpg", "2.txt", "a.jpg", "seg.jpg"], [20, 10]),
        (["jpg", "0.jpg", "1.jpg"], 10),
        (["7.png"], 10),
    ],
)
def test_the_first_field_that_is_there_is_the_image_and_numbered_ones_are_several(names, widths):
    fields = {
        name: encoded(Image.new("RGB", (10 * (place + 1), 5)), "PNG")
        for place, name in enumerate(names)
    }
    assert score("width", fields) == widths


def test_a_score_may_look_at_another_image():
    fields = {
        f"{side}.png": encoded(Image.new("RGB", (width, 5)), "PNG")
        for side, width in (("left", 3), ("right", 4))
    }
    assert score("width", fields, image="right.png") == 4
    assert score("width", fields, image="*.png") == [3, 4]
    assert score("width", fields, ViewOptions(images="jpg;left.png")) == 3
    assert slug(lambda: score("width", fields)) == "no-image"


def test_what_is_missing_is_an_error_that_names_what_is_there():
    view = View({"cls": b"1", "json": b"{}"}, key="a")
    with pytest.raises(
        ScoreError, match=r"no-image: no field 'jpg;png;jpeg;webp'; it has 'cls', 'json'"
    ):
        view.headers()
    with pytest.raises(ScoreError, match=r"no-caption: none in 'txt'; it has 'cls', 'json'"):
        view.captions()


def test_an_error_is_the_same_each_time():
    fields = Counting(jpg=LARGE[:5000])
    view = View(fields)
    found = [slug(view.pictures) for _ in range(3)]
    assert found == ["truncated"] * 3
    assert len(fields.reads) == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "not-an-image"),
        (b"<html>no</html>", "not-an-image"),
        (LARGE[:20], "truncated"),
        (b"%PDF-1.4", "unknown-size"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"></svg>', "unknown-size"),
    ],
)
def test_an_image_without_size_is_an_error(data, expected):
    assert slug(lambda: score("min_side", {"jpg": data})) == expected


def test_one_bad_image_of_several_is_an_error_that_names_it():
    fields = {"0.png": encoded(photo(), "PNG"), "1.png": b"junk"}
    with pytest.raises(ScoreError, match=r"field '1.png'"):
        score("width", fields)


@pytest.mark.deep
def test_what_would_take_more_than_the_budget_is_refused_before_it_is_read_or_decoded():
    small = ViewOptions(budget=len(LARGE) - 1)
    fields = Counting(jpg=LARGE)
    assert slug(lambda: score("blur", fields, small)) == "over-budget"
    assert fields.reads == []
    assert score("width", fields, small) == 900
    bomb = encoded(Image.new("1", (20_000, 20_000)), "PNG")
    assert len(bomb) < 200_000
    assert slug(lambda: score("blur", {"png": bomb})) == "over-budget"


def test_the_images_of_a_sample_share_the_budget():
    one = encoded(Image.new("RGB", (700, 700)), "PNG")
    options = ViewOptions(budget=12_000_000)
    assert score("is_blank", {f"{number}.png": one for number in range(2)}, options) == [True, True]
    assert (
        slug(lambda: score("is_blank", {f"{number}.png": one for number in range(9)}, options))
        == "over-budget"
    )


def test_a_shard_that_ends_inside_of_an_image_is_an_error():
    class Cut(Held):
        def read(self, name, start, size):
            return super().read(name, start, size)[:1000]

    assert slug(lambda: View(Cut(jpg=LARGE)).headers()) == "unread"


def test_a_gif_is_animated_if_its_second_frame_comes_late_and_other_scores_do_not_look_for_it():
    frames = [noise(200, 200, "P", seed) for seed in (1, 2)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    fields = Counting(jpg=data)
    assert score("width", fields) == 200
    assert fields.reads == [("jpg", 0, 4096)]
    assert score("animated", fields) is True
    assert score("animated", {"jpg": encoded(frames[0], "GIF")}) is False


def test_a_tiff_with_its_directory_at_the_end_has_a_size():
    data = encoded(noise(300, 200), "TIFF")
    directory = data[int.from_bytes(data[4:8], "little") :]
    moved = data[:4] + len(data).to_bytes(4, "little") + data[8:] + directory
    view = View({"jpg": moved})
    found = [made(name).score(view) for name in ("width", "height", "mode", "format")]
    assert found == [300, 200, "RGB", "tiff"]
    assert view.bytes_read < 20_000 < len(moved)
    assert slug(lambda: score("width", {"jpg": moved[: len(data)]})) == "undecodable"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a cat", "a cat"),
        ("a cat ".encode("utf-8-sig"), "a cat "),
        ("ein Kätzchen".encode("utf-16"), "ein Kätzchen"),
        ("猫".encode(), "猫"),
        (b"", ""),
        (b"  \n", "  \n"),
    ],
)
def test_a_caption_is_the_text_as_it_stands(data, text):
    assert View({"txt": data}).captions() == [text]


@pytest.mark.parametrize(
    ("place", "fields", "texts"),
    [
        ("json:alt", {"json": {"alt": " a cat "}}, ["a cat"]),
        ("json:alt;title", {"json": {"alt": None, "title": "b"}}, ["b"]),
        ("json:meta.texts", {"json": {"meta": {"texts": ["a", "", None, "b"]}}}, ["a", "b"]),
        ("txt|json:alt", {"json": {"alt": "a"}}, ["a"]),
        ("txt|json:alt", {"json": {"alt": "a"}, "txt": b"t"}, ["t"]),
        ("text;txt", {"txt": b"t"}, ["t"]),
        ("txt", {"1.txt": b"b", "0.txt": b"a"}, ["a", "b"]),
        ("json:alt", {"json": {"alt": " "}}, "no-caption"),
        ("json:alt", {"txt": b"a"}, "no-caption"),
        ("json:alt", {"json": {"alt": 5}}, "not-text"),
        ("json:alt", {"json": {"alt": {"en": "a"}}}, "not-text"),
        ("json:alt", {"json": b"{"}, "bad-json"),
        ("json:alt", {"json": {"alt": "a" * 2_000_000}}, "large-text"),
        ("txt", {"txt": b"\xff\xfe\xff"}, "not-utf8"),
        ("txt", {"txt": b"caf\xe9"}, "not-utf8"),
        ("txt", {"txt": b"a" * 2_000_000}, "large-text"),
    ],
)
def test_captions_lie_where_they_are_said_to_lie(place, fields, texts):
    held = {
        name: value if isinstance(value, bytes) else json.dumps(value).encode()
        for name, value in fields.items()
    }
    for found in (
        lambda: View(held, ViewOptions(captions=place)).captions(),
        lambda: View(held).captions(place),
    ):
        if isinstance(texts, str):
            assert slug(found) == texts
        else:
            assert found() == texts


def test_several_captions_give_several_values():
    fields = {"json": b'{"texts": ["a cat", "the dog there"]}'}
    assert score("caption_words", fields, caption="json:texts") == [2, 3]


@pytest.mark.parametrize(
    "options", [{"images": ""}, {"images": ";"}, {"captions": "json:"}, {"captions": "txt|"}]
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=r"names no field|not of the form"):
        ViewOptions(**options)
