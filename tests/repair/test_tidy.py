"""Names: one key for one sample, and nothing that a reader splits otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.repair.clean_names import tidy_names
from wdsflow.shards.tar.members import split_name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # a dot in the base name
        (["img.v1.jpg", "img.v1.txt", "img.v2.jpg"], ["img_v1.jpg", "img_v1.txt", "img_v2.jpg"]),
        (["photo 2.0 (x).jpg", "photo 2.0 (x).txt"], ["photo 2_0 (x).jpg", "photo 2_0 (x).txt"]),
        (["0.5.jpg", "0.5.txt", "0.5.seg.png"], ["0_5.jpg", "0_5.txt", "0_5.seg.png"]),
        (["v1.0/a.jpg", "v1.0/a.txt"], ["v1.0/a.jpg", "v1.0/a.txt"]),
        (["a..jpg", "a.txt"], ["a_.jpg", "a.txt"]),
        # compound fields stay
        (
            ["0.jpg", "0.txt", "0.seg.png", "1.jpg", "1.seg.png"],
            ["0.jpg", "0.txt", "0.seg.png", "1.jpg", "1.seg.png"],
        ),
        (["0.jpg", "0.txt.gz"], ["0.jpg", "0.txt.gz"]),
        (["0.input.jpg", "0.outputs.txt"], ["0.input.jpg", "0.outputs.txt"]),
        (["0.left.jpg", "0.right.jpg", "1.left.jpg", "1.right.jpg"],) * 2,
        (["0.json", "0.left.seg.png", "0.right.seg.png"],) * 2,
        # a full sample of its own is no field of its neighbour
        (
            ["p.jpg", "p.txt", "p.new.jpg", "p.new.txt"],
            ["p.jpg", "p.txt", "p_new.jpg", "p_new.txt"],
        ),
        # folders and prefixes
        (["./a.jpg", "a.txt"], ["a.jpg", "a.txt"]),
        (["img/a.jpg", "txt/a.txt"], ["a.jpg", "a.txt"]),
        (
            ["train/img/a.jpg", "train/txt/a.txt", "val/img/a.jpg"],
            ["train/a.jpg", "train/a.txt", "val/img/a.jpg"],
        ),
        (["images/000/a.jpg", "captions/000/a.txt"], ["000/a.jpg", "000/a.txt"]),
        (["cats/a.jpg", "cats/a.txt", "dogs/a.jpg", "dogs/a.txt"],) * 2,
        (["img/a.jpg", "img/b.jpg", "img/c.jpg", "txt/z.txt"],) * 2,
        # upper case
        (["A.JPG", "A.Txt", "B.Seg.PNG", "B.jpg"], ["A.jpg", "A.txt", "B.seg.png", "B.jpg"]),
        # unsafe
        (["/etc/a.jpg", "/etc/a.txt"], ["etc/a.jpg", "etc/a.txt"]),
        (["../../a.jpg", "../../a.txt"], ["a.jpg", "a.txt"]),
        (["a.jpg", "a.txt", "../a.jpg", "../a.txt"], ["a.jpg", "a.txt", "a-2.jpg", "a-2.txt"]),
        (["x\ny.jpg", "x\ny.txt", "x_y.jpg"], ["x_y-2.jpg", "x_y-2.txt", "x_y.jpg"]),
        (["a\udcff.jpg", "a\x1b[2J.txt"], ["a_.jpg", "a_[2J.txt"]),
    ],
)
def test_names_become(before: list[str], after: list[str]):
    tidy = tidy_names(before)
    assert tidy.names == after
    assert not any(tidy.reasons)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("d/._a.jpg", "appledouble"),
        ("._a.jpg", "appledouble"),
        ("d/.DS_Store", "system-file"),
        ("__MACOSX/d/._a.jpg", "macosx"),
        (".git/a.jpg", "hidden"),
        ("d/.hidden.jpg", "hidden"),
        ("LICENSE", "no-extension"),
        ("a.", "no-extension"),
        ("", "no-extension"),
        ("..", "no-extension"),
        ("README.md", "not-a-sample"),
        ("__info__/a.json", "metadata"),
    ],
)
def test_what_is_no_sample_has_a_reason(name: str, reason: str):
    tidy = tidy_names(["a.jpg", name])
    assert tidy.names == ["a.jpg", None]
    assert tidy.reasons[1] == reason


def test_a_sample_that_is_called_readme_stays():
    assert tidy_names(["readme.jpg", "readme.txt"]).names == ["readme.jpg", "readme.txt"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["1/.jpg", "1/.txt", "2/.jpg", "2/.txt"], ["1.jpg", "1.txt", "2.jpg", "2.txt"]),
        (["1/.jpg", "2/.jpg", "1/.txt", "2/.txt"], ["1.jpg", "2.jpg", "1.txt", "2.txt"]),
        ([".cache/1.jpg", ".cache/1.txt"], ["cache/1.jpg", "cache/1.txt"]),
        (["./__new__/1.jpg", "./__new__/1.txt"], ["new/1.jpg", "new/1.txt"]),
        (["d/.jpg", "d/1.jpg"], [None, "d/1.jpg"]),
    ],
)
def test_names_that_look_like_junk_stay_if_readers_train_on_them(
    before: list[str], after: list[str | None]
):
    assert tidy_names(before).names == after


PIECES = st.sampled_from(
    ["a", "b", "v1", "seg", "0", "5 (x)", "img", "a-2", "a_b", "_", "é", "\n", "\udcff", "", "A"]
)
STEMS = st.lists(PIECES, min_size=1, max_size=3).map(".".join)
FIELDS = st.sampled_from(["jpg", "txt", "json", "JPG", "png", "seg.png", "txt.gz", "gz", "", "x y"])
FOLDERS = st.sampled_from(
    ["", "", "./", "/", "../", "img/", "txt/", "d/img/", "d/txt/", "d.1/", "img/0/", "txt/0/"]
)
NAMES = st.tuples(FOLDERS, STEMS, FIELDS).map(lambda parts: f"{parts[0]}{parts[1]}.{parts[2]}")


@given(st.lists(NAMES, max_size=14))
def test_tidy_names_stay_as_they_are_and_split_the_same_for_all(members: list[str]):
    tidy = tidy_names(members)
    assert [name is None for name in tidy.names] == [bool(reason) for reason in tidy.reasons]
    kept = [name for name in tidy.names if name is not None]
    again = tidy_names(kept)
    assert again.names == kept
    assert not again.fixed
    for name in kept:
        key, field = split_name(name)
        assert key
        assert field == field.lower()
        assert not key.startswith("/")
        assert ".." not in key.split("/")
        assert name.replace("é", "e").isprintable()


@given(st.lists(NAMES, max_size=12, unique=True))
def test_members_that_differ_in_more_than_case_and_folder_never_become_one(members: list[str]):
    flat = [name for name in members if "/" not in name and name == name.lower()]
    kept = [name for name in tidy_names(flat).names if name is not None]
    assert len(set(kept)) == len(kept)
