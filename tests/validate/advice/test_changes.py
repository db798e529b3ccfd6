"""Changes to the shapes of samples, case by case."""

import pytest

from tests.readers.shapes import shape
from wdsflow.scan.evidence import JsonKey, ShardEvidence
from wdsflow.scan.shapes import Run, Runs, Shape, ShapeCount
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.rules.kit.edited_evidence import shards_after_edit
from wdsflow.validate.rules.kit.shape_edits import (
    ShapeEdits,
    as_caption,
    caption_edits,
    is_bad,
    is_known,
    is_plain,
    with_caption,
)

GOOD, BAD = shape("jpg txt"), shape("jpg")


def listed(*runs: tuple[str, int], tail: str | None = None) -> ShardEvidence:
    """Return a shard of one run, then so many of each shape, then perhaps a last one."""
    head, *inner = runs
    counts = [count for _, count in inner]
    items = [
        ShapeCount(shape(members), count, f"k{number}", 512 * number, tuple(counts[:number]))
        for number, (members, count) in enumerate(inner)
    ]
    last = None if tail is None else Run("z", 9_999, shape(tail))
    return ShardEvidence(
        single_shard("a.tar"), runs=Runs(Run("a", 0, shape(head[0])), tuple(items), last)
    )


def without_bad(found: Shape, told: bool) -> Shape | None:
    return None if found == BAD else found


@pytest.mark.parametrize(
    ("members", "bad"),
    [
        *[
            ("jpg txt", False),
            ("jpg", True),
            ("txt", True),
            ("gif txt", True),
            ("jpg txt:empty", True),
        ],
        *[
            ("jpg txt:blank", True),
            ("jpg txt:not-utf8", True),
            ("jpg txt:bad", True),
            ("jpg txt json", False),
        ],
        *[
            ("jpg txt json:bad", True),
            ("jpg txt cls:bad", False),
            ("jpg:bad txt", True),
            ("jpg:bomb txt", True),
        ],
        *[("webp png:bad txt", True), ("jpg txt:?", False), ("jpg:big txt", False)],
    ],
)
def test_what_is_left_out_as_bad(members: str, bad: bool) -> None:
    assert is_bad(shape(members)) is bad
    assert ShapeEdits(drop_bad=True)(shape(members), False) == (None if bad else shape(members))


@pytest.mark.parametrize(
    ("edits", "members", "told", "after"),
    [
        (ShapeEdits("c"), "jpg json", True, "jpg json txt"),
        (ShapeEdits("c"), "jpg json", False, "jpg json"),
        (ShapeEdits("c"), "jpg", True, "jpg"),
        (ShapeEdits("c"), "txt jpg json", True, "txt jpg json"),
        (ShapeEdits("c"), "txt:empty jpg json", True, "jpg json txt"),
        (ShapeEdits("c"), "txt:bad jpg json", True, "txt:bad jpg json"),
        (ShapeEdits(rename=(("gif", "jpg"),)), "gif txt", False, "jpg txt"),
        (ShapeEdits(rename=(("gif", "jpg"),)), "gif jpg", False, "gif jpg"),
        (ShapeEdits(rename=(("x", "txt"),)), "jpg x:-", False, "jpg txt:?"),
        (ShapeEdits(rename=(("cls", "raw"),)), "jpg cls:bad", False, "jpg raw:-"),
        (ShapeEdits(rename=(("caption", "text"),)), "caption:-", False, "text:?"),
        (ShapeEdits(rename=(("text", "txt"),)), "text:empty", False, "txt:empty"),
        (ShapeEdits(drop=("cls", "npy")), "jpg cls txt npy", False, "jpg txt"),
        (ShapeEdits(drop=("jpg",)), "jpg", False, None),
    ],
)
def test_an_edit_of_one_sample(
    edits: ShapeEdits, members: str, told: bool, after: str | None
) -> None:
    assert edits(shape(members), told) == (None if after is None else shape(after))


def test_a_shard_after_an_edit_has_its_other_samples_at_their_places() -> None:
    shard = listed(("jpg", 1), ("jpg txt", 5), ("jpg", 2), tail="jpg txt")
    (after,) = shards_after_edit([shard], without_bad)
    assert after.runs == Runs(
        Run("k0", 0, GOOD), (ShapeCount(GOOD, 4, "k0", 0),), Run("z", 9_999, GOOD)
    )
    assert shards_after_edit([listed(("jpg", 1), tail="jpg")], without_bad) == []
    (one,) = shards_after_edit([listed(("jpg", 1), ("jpg txt", 1))], without_bad)
    assert one.runs == Runs(Run("k0", 0, GOOD))
    (two,) = shards_after_edit([listed(("jpg txt", 1), tail="jpg")], lambda found, _: found)
    assert two.runs == Runs(Run("a", 0, GOOD), (), Run("z", 9_999, BAD))


def test_captions_are_taken_only_where_they_are() -> None:
    shard = listed(("jpg json", 1), ("jpg json", 4))
    shard.json_keys["c"] = JsonKey(5, 3, shapes={shape("jpg json"): 3})
    (after,) = shards_after_edit([shard], with_caption, "c")
    assert sum(item.count for item in after.runs.shape_counts()) == 3
    assert after.runs.shapes() == {shape("jpg json txt")}
    assert with_caption(shape("cls json"), True) is None
    assert as_caption(shape("jpg JSON:- txt"), True) == shape("jpg JSON txt")
    assert as_caption(shape("jpg json"), False) == shape("jpg json:no-caption")
    assert as_caption(shape("jpg json:bad"), True) == shape("jpg json:bad")


def test_what_is_known_of_shapes() -> None:
    assert [is_known([listed((members, 1))]) for members in ("jpg txt", "jpg:? txt")] == [
        True,
        False,
    ]
    assert [is_plain([listed((members, 1))]) for members in ("jpg txt", "JPG txt", "txt txt")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("name", "fields", "edits"),
    [
        ("caption", "json", ShapeEdits("caption")),
        ("caption", "jsn", ShapeEdits("caption", (("jsn", "json"),))),
        ("a;b", "json", None),
        (" a", "json", None),
    ],
)
def test_captions_in_json_make_a_repair_if_their_name_fits_into_an_option(
    name: str, fields: str, edits: ShapeEdits | None
) -> None:
    shard = listed((f"jpg {fields}", 1))
    shard.fields[fields] = shard.fields.get(fields)  # type: ignore[assignment]
    shard.json_keys[name] = JsonKey(9, 9, 9, "a brown dog in the snow", plain=9, varied=True)
    assert caption_edits([shard]) == edits
