"""JsonText: captions out of json, and never an object's names."""

import json
from collections import Counter

import pytest

from wdsflow.stages import JsonText, StageError


def written(stage: JsonText, data: object, key: str = "a") -> object:
    return next((sample["txt"] for sample in stage([{"__key__": key, "json": data}])), None)


def caption(stage: JsonText, tree: object, key: str = "a") -> str | None:
    data = tree if isinstance(tree, (bytes, str, dict)) else json.dumps(tree).encode()
    found = written(stage, data, key)
    return found.decode() if isinstance(found, bytes) else None if found is None else str(found)


@pytest.mark.parametrize(
    "wrap", [lambda data: data, bytearray, memoryview, bytes.decode, json.loads]
)
def test_the_caption_is_as_raw_as_the_json_unless_told_otherwise(wrap):
    data = wrap('{"caption": " une fl\u00e8che\\n"}'.encode())
    text = "une fl\u00e8che"
    raw = not isinstance(data, (str, dict))
    assert written(JsonText("caption"), data) == (text.encode() if raw else text)
    assert written(JsonText("caption", output="str"), data) == text
    assert written(JsonText("caption", output="bytes"), data) == text.encode()
    assert JsonText("caption").caption("a", data) == text


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"caption": "a", "alt": "b"}, "a"),
        ({"caption": "", "alt": "b"}, "b"),
        ({"caption": " \n", "alt": "b"}, "b"),
        ({"caption": None, "alt": "b"}, "b"),
        ({"caption": [], "alt": "b"}, "b"),
        ({"caption": 7, "alt": "b"}, "b"),
        ({"caption": {"x": 1}, "alt": "b"}, "b"),
        ({"caption": [None, "", " c ", "d"], "alt": "b"}, "c"),
        ({"caption": [["c"]], "alt": "b"}, "b"),
        ({"alt": "b"}, "b"),
    ],
)
def test_the_first_name_with_text_wins(tree, expected):
    assert caption(JsonText("caption;alt"), tree) == expected


def test_a_path_with_dots_goes_into_objects_and_a_name_with_dots_comes_first():
    assert caption(JsonText("meta.caption"), {"meta": {"caption": "a"}}) == "a"
    assert caption(JsonText("meta.caption"), {"meta.caption": "b", "meta": {"caption": "a"}}) == "b"


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"caption": {"url": "x", "width": 1}}, "not-text"),
        ({"caption": 7}, "not-text"),
        ({"caption": True}, "not-text"),
        ({"caption": None}, "no-caption"),
        ({"caption": [1, 2]}, "no-caption"),
        ({"other": "text"}, "no-caption"),
        (["caption"], "no-caption"),
        (b'"caption"', "no-caption"),
        (b"null", "no-caption"),
    ],
)
def test_what_is_no_caption_is_a_counted_drop_or_an_error(tree, reason):
    stage = JsonText("caption")
    assert caption(stage, tree) is None
    assert stage.counts.dropped == {reason: 1}
    with pytest.raises(StageError, match="'caption'") as caught:
        caption(JsonText("caption", on_missing="raise"), tree)
    assert caught.value.slug == reason


def test_a_sample_without_json_is_counted_apart():
    stage = JsonText("caption")
    assert list(stage([{"__key__": "a", "jpg": b""}])) == []
    assert stage.counts.dropped == {"no-json": 1}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\x80", b"[" * 500_000, b'{"a":' * 500_000, b'{"a": ' + b"9" * 5_000, "\ufeff"],
)
def test_json_that_cannot_be_parsed_is_an_error(data):
    stage = JsonText("caption", on_error="drop")
    assert caption(stage, data) is None
    assert stage.counts.failed == {"bad-json": 1}


def test_json_beyond_the_bound_is_not_parsed():
    stage = JsonText("caption", on_error="drop")
    assert caption(stage, b'{"caption": "' + bytes(17 << 20) + b'"}') is None
    assert stage.counts.failed == {"large-json": 1}


def test_an_object_that_python_nested_beyond_any_recursion_is_no_matter():
    tree: dict[str, object] = {"caption": "a cat"}
    inner = tree
    for _ in range(100_000):
        inner["more"] = inner = {}
    assert caption(JsonText("more.caption;caption"), tree) == "a cat"


def test_a_text_that_is_there_is_settled_as_asked():
    def run(choice):
        stage = JsonText("caption", on_target=choice, on_error="drop")
        samples = list(stage([{"__key__": "a", "json": {"caption": "new"}, "txt": "old"}]))
        return [sample["txt"] for sample in samples], stage.counts

    assert run("replace")[0] == ["new"]
    assert run("keep")[0] == ["old"]
    assert run("replace")[1].noted == run("keep")[1].noted == {"has-txt": 1}
    assert run("drop")[1].dropped == run("raise")[1].failed == {"has-txt": 1}


def test_weights_draw_names_in_proportion_and_the_same_for_the_same_key():
    stage = JsonText("a;b;c", (3, 1))
    keys = [f"{number:05}" for number in range(4000)]
    drawn = {key: caption(stage, {"a": "A", "b": "B", "c": "C"}, key) for key in keys}
    counts = Counter(drawn.values())
    assert set(counts) == {"A", "B"}
    assert counts["A"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert all(
        caption(stage, {"a": "A", "b": "B"}, key) == drawn[key] for key in reversed(keys[:50])
    )
    later = JsonText("a;b;c", (3, 1), epoch=1)
    assert any(caption(later, {"a": "A", "b": "B"}, key) != drawn[key] for key in keys[:50])


def test_names_without_weight_are_there_to_fall_back_on_in_order():
    stage = JsonText("a;b;c", (0, 1))
    assert caption(stage, {"a": "A", "b": "B", "c": "C"}) == "B"
    assert caption(stage, {"a": "A", "b": "", "c": "C"}) == "A"
    assert caption(stage, {"c": "C"}) == "C"


@pytest.mark.parametrize("weights", [(1, 1, 1), (-1,), (float("nan"),), (float("inf"),)])
def test_weights_that_mean_nothing_are_refused(weights):
    with pytest.raises(ValueError, match="json_text_key_probs"):
        JsonText("a;b", weights)


@pytest.mark.parametrize("key", ["", " ; ", ()])
def test_no_name_is_refused(key):
    with pytest.raises(ValueError, match="json_text_key"):
        JsonText(key)


@pytest.mark.parametrize(
    "tree",
    [
        {"a": "x", "b": "y"},
        {"a": " x "},
        {"a": ""},
        {"a": None, "b": "y"},
        {"a": 7},
        {"a": {"b": 1}},
        ["a"],
        "a",
        None,
        1,
    ],
)
@pytest.mark.parametrize("weights", [None, (0.0, 2.0)])
def test_it_takes_what_the_extractor_of_openclip_4_takes(tree, weights):
    """Its rule: the first string that is not blank, in the order of the names.

    Names with a weight come first.
    """
    names = ["a", "b"] if weights is None else ["b", "a"]
    values = [tree.get(name) for name in names] if isinstance(tree, dict) else []
    expected = next(
        (value.strip() for value in values if isinstance(value, str) and value.strip()), None
    )
    assert caption(JsonText("a;b", weights), json.dumps(tree).encode()) == expected
