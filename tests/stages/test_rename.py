"""Rename: nothing happens silently."""

import pytest

from wdsflow.stages import Rename, StageError


def run(stage: Rename, **fields: object) -> list[dict[str, object]]:
    return list(stage([{"__key__": "a", "__url__": "x.tar", **fields}]))


def only(stage: Rename, **fields: object) -> dict[str, object]:
    [sample] = run(stage, **fields)
    return {name: value for name, value in sample.items() if not name.startswith("__")}


def test_each_sample_takes_the_alternative_that_it_has():
    stage = Rename.of(image="jpg;png", text="txt")
    assert only(stage, jpg=1, txt=2) == {"image": 1, "text": 2}
    assert only(stage, png=3, txt=4, json=5) == {"json": 5, "image": 3, "text": 4}


def test_names_can_be_swapped():
    assert only(Rename({"a": "b", "b": "a"}), a=1, b=2) == {"a": 2, "b": 1}


def test_half_a_swap_does_not_leave_the_value_under_both_names():
    assert only(Rename({"a": "b", "b": "a"}, on_missing="keep"), a=1) == {"b": 1}


def test_new_fields_come_in_the_order_given():
    assert list(only(Rename({"text": "txt", "image": "jpg"}), jpg=1, txt=2)) == ["text", "image"]


def test_two_new_names_may_take_the_same_field():
    assert only(Rename({"image": "jpg", "thumb": "jpg"}), jpg=1) == {"image": 1, "thumb": 1}


def test_a_name_may_be_among_its_own_alternatives():
    stage = Rename({"image": "image;jpg"})
    assert only(stage, image=1) == only(stage, jpg=1) == {"image": 1}


def test_without_keep_only_new_fields_and_webdatasets_own_are_left():
    assert run(Rename({"image": "jpg"}, keep=False), jpg=1, json=2) == [
        {"__key__": "a", "__url__": "x.tar", "image": 1}
    ]


@pytest.mark.parametrize(
    ("choice", "fields", "slug"),
    [
        ("on_missing", {"txt": 1}, "no-image"),
        ("on_conflict", {"jpg": 1, "png": 2}, "several-image"),
        ("on_target", {"jpg": 1, "image": 2}, "has-image"),
    ],
)
def test_what_does_not_go_smoothly_is_an_error_with_a_name_or_a_counted_drop(choice, fields, slug):
    stage = Rename.of(image="jpg;png")
    with pytest.raises(
        StageError, match=rf"rename: sample 'a' of 'x.tar': it has .*{choice}"
    ) as caught:
        run(stage, **fields)
    assert caught.value.slug == slug
    assert stage.counts.failed == {slug: 1}

    stage = Rename({"image": "jpg;png"}, **{choice: "drop"})
    assert run(stage, **fields) == []
    assert stage.counts.dropped == {slug: 1}

    stage = Rename({"image": "jpg;png"}, on_error="drop")
    assert run(stage, **fields) == []
    assert stage.counts.failed == {slug: 1}


@pytest.mark.parametrize(
    ("choices", "fields", "expected", "slug"),
    [
        ({"on_missing": "keep"}, {"txt": 1}, {"txt": 1}, "no-image"),
        ({"on_conflict": "first"}, {"png": 2, "jpg": 1}, {"image": 1}, "several-image"),
        ({"on_target": "replace"}, {"jpg": 1, "image": 2}, {"image": 1}, "has-image"),
        ({"on_target": "keep"}, {"jpg": 1, "image": 2}, {"image": 2}, "has-image"),
    ],
)
def test_what_is_settled_without_loss_of_the_sample_is_noted(choices, fields, expected, slug):
    stage = Rename({"image": "jpg;png"}, **choices)
    assert only(stage, **fields) == expected
    assert stage.counts.noted == {slug: 1}


def test_a_sample_that_is_dropped_in_the_end_leaves_no_note():
    stage = Rename({"image": "jpg;png", "text": "txt"}, on_conflict="first", on_missing="drop")
    assert run(stage, jpg=1, png=2) == []
    assert stage.counts.noted == {}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"image": ""},
        {"image": " ; "},
        {"": "jpg"},
        {"__key__": "id"},
        {"id": "__key__"},
        {"a;b": "jpg"},
    ],
)
def test_renames_that_mean_nothing_are_refused(fields):
    with pytest.raises(ValueError, match=r"field|name|webdataset"):
        Rename(fields)


def test_the_same_new_name_twice_is_refused():
    with pytest.raises(ValueError, match="same new name"):
        Rename((("image", "jpg"), ("image", "png")))


def test_a_misspelt_choice_is_refused():
    with pytest.raises(
        ValueError, match="rename: on_missing='dorp' is not one of 'raise', 'drop', 'keep'"
    ):
        Rename({"image": "jpg"}, on_missing="dorp")


def test_it_says_what_it_reads_writes_and_removes():
    stage = Rename({"a": "b", "image": "jpg;b"})
    assert stage.reads == {"b", "jpg;b"}
    assert stage.writes == {"a", "image"}
    assert stage.removes == {"b", "jpg"}
