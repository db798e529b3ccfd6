"""Images and captions with different names are paired only if the match is evident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.repair.clean_names import tidy_names
from wdsflow.repair.pairing import pair_names


def keys(names: list[str]) -> dict[str, set[str]]:
    """Return the fields of each key, as a repair writes them."""
    found: dict[str, set[str]] = {}
    for name in filter(None, tidy_names(names).names):
        folder, _, base = name.rpartition("/")
        key, _, field = base.partition(".")
        found.setdefault(f"{folder}/{key}".strip("/"), set()).add(field)
    return found


PAIR = {"jpg", "txt"}
ALL = {*PAIR, "json"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1/image.jpg", "1/caption.txt", "2/image.jpg", "2/caption.txt"], {"1": PAIR, "2": PAIR}),
        (["d/1/image.jpg", "d/1/caption.txt"], {"d/1": PAIR}),
        (["1/a.jpg", "1/b.txt", "2/c.jpg", "2/d.txt"], {"1": PAIR, "2": PAIR}),
        (
            ["1/image.jpg", "1/mask.png", "1/caption.txt", "1/vector.npy"],
            {"1": {*PAIR, "mask.png", "npy"}},
        ),
        (["1/img.jpg", "1/cap.txt", "1/meta.json"], {"1": {*PAIR, "json"}}),
        (["1_image.jpg", "1_caption.txt", "2_image.jpg", "2_caption.txt"], {"1": PAIR, "2": PAIR}),
        (["1-img.jpg", "1.txt", "2-img.jpg", "2.txt"], {"1": PAIR, "2": PAIR}),
        (["img1.jpg", "txt1.txt", "img2.jpg", "txt2.txt"], {"1": PAIR, "2": PAIR}),
        (["image_a_b.jpg", "caption_a_b.txt"], {"a_b": PAIR}),
        (["images/img_1.jpg", "captions/cap_1.txt"], {"1": PAIR}),
        (["images/1.jpg", "captions/1.txt"], {"1": PAIR}),
        (["1.jpg", "1.jpg.txt", "2.png", "2.png.txt"], {"1": PAIR, "2": {"png", "txt"}}),
        (["1.jpg.jpg", "1.jpg.txt"], {"1_jpg": PAIR}),
        (["1.jpg", "1.txt ", "2.jpg ", "2.txt"], {"1": PAIR, "2": PAIR}),
        (["1 .jpg", "1.txt"], {"1": PAIR}),
        (["IMG_1.jpg", "img_1.txt", "IMG_2.jpg", "img_2.txt"], {"IMG_1": PAIR, "IMG_2": PAIR}),
        (
            ["000000/.jpg", "000000/.txt", "000001/.jpg", "000001/.txt"],
            {"000000": PAIR, "000001": PAIR},
        ),
        # json has the name of the image, or of the text
        (
            [
                "1/image.jpg",
                "1/image.json",
                "1/caption.txt",
                "2/image.jpg",
                "2/image.json",
                "2/caption.txt",
            ],
            {"1": ALL, "2": ALL},
        ),
        (["1/image.jpg", "1/caption.json", "1/caption.txt"], {"1": ALL}),
        (
            ["1/image.jpg", "1/image.json", "1/meta.json", "1/caption.txt"],
            {"1": {*PAIR, "image.json", "meta.json"}},
        ),
        (["images/1.jpg", "images/1.json", "captions/1.txt"], {"1": ALL}),
        (
            ["1_image.jpg", "1_image.json", "1_caption.txt", "2_image.jpg", "2_caption.txt"],
            {"1": ALL, "2": PAIR},
        ),
        (["1.jpg", "1.json", "1.jpg.txt"], {"1": ALL}),
        (["img1.jpg", "img1.json", "1.txt"], {"1": ALL}),
        (["IMG_1.jpg", "IMG_1.json", "img_1.txt"], {"IMG_1": ALL}),
        # so does a label
        (["1/image.jpg", "1/image.cls", "1/caption.txt"], {"1": {*PAIR, "cls"}}),
        (["IMG_1.jpg", "IMG_1.cls", "img_1.txt"], {"IMG_1": {*PAIR, "cls"}}),
        (["1/image.jpg", "1/image.cls", "1/caption.json"], {"1": {"jpg", "cls", "json"}}),
        # one of ten captions is missing
        (
            [*(f"{n}_image.jpg" for n in range(10)), *(f"{n}_caption.txt" for n in range(9))],
            {**{str(n): PAIR for n in range(9)}, "9_image": {"jpg"}},
        ),
    ],
)
def test_names_that_evidently_belong_together_are_paired(
    names: list[str], expected: dict[str, set[str]]
):
    paired = pair_names(names)
    assert keys(paired) == expected
    assert pair_names(paired) == paired


@pytest.mark.parametrize(
    "names",
    [
        # nothing says that a cat is a dog
        ["cat_1.jpg", "dog_1.txt", "cat_2.jpg", "dog_2.txt"],
        # a folder of pairs with one file too many of each
        ["cats/1.jpg", "cats/1.txt", "cats/2.jpg", "cats/3.txt"],
        # two images, and no word that says which
        ["1/a.jpg", "1/b.jpg", "1/c.txt"],
        ["1/image.jpg", "1/a.txt", "1/b.txt"],
        # most images have no caption
        [*(f"{n}_image.jpg" for n in range(10)), "0_caption.txt"],
        # another sample has the key
        ["1.jpg", "1.npy", "1_caption.txt", "1_image.jpg", "1.txt"],
        ["1.jpg", "1.txt", "2.jpg", "2.txt"],
        # json has the captions
        ["1/image.jpg", "1/image.json", "2/image.jpg", "2/image.json", "about/this.txt"],
        ["1.jpg", "1.cls", "2.jpg", "2.cls", "about/this.txt"],
        ["a.jpg", "b.txt"],
        ["README", "1.jpg", "1.txt"],
    ],
)
def test_what_is_not_evident_is_left_alone(names: list[str]):
    assert pair_names(names) == names


PIECES = st.sampled_from(
    ["1", "2", "A", "a", "image", "caption", "img_1", "1_image", "1_caption", "x y"]
)
NAMES = st.builds(
    "{}{}.{}".format,
    st.sampled_from(["", "", "1/", "2/", "images/", "captions/", "d/1/"]),
    PIECES,
    st.sampled_from(["jpg", "txt", "json", "cls", "png", "txt ", "jpg.txt"]),
)


@given(st.lists(NAMES, max_size=12, unique=True))
def test_no_name_is_lost_or_shared_and_no_pair_is_parted(names: list[str]):
    paired = pair_names(names)
    assert len(set(paired)) == len(names)
    together = {name.rpartition(".")[0] for name in names if name.endswith(".jpg")}
    for before, after in zip(names, paired, strict=True):
        stem = before.rpartition(".")[0]
        if before.endswith(".txt") and stem in together:
            assert after == before
