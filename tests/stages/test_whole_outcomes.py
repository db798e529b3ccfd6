"""The results, counts and errors of each stage for odd samples, word by word.

``golden_file`` explains how to update the expected text.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.golden_file import check_text
from tests.pictures import encoded, exif, photo
from wdsflow.stages import (
    Batch,
    CleanText,
    Decode,
    Drop,
    HasFields,
    JsonText,
    Pipeline,
    Rename,
    Resize,
    Sample,
    Select,
    Shuffle,
    StageError,
    Unbatch,
)

GOLDEN = Path(__file__).parent / "golden.txt"
TEXTS: list[Any] = [
    b"a cat", " a \t cat\n", b"\xef\xbb\xbfa cat", "caf\u00c3\u00a9 &amp; co".encode(), b"caf\xe9", "\u200b\u2060", b"", b"\0\x07", 7, ["a"],
    {"a": 1}, "Katze".encode("utf-16"), "Katze".encode("utf-32"), b"\xff\xfe\0", bytearray(b"a  dog"), memoryview(b"x  y"), "x" * 21, b"y" * 20,
    "\u201cso\u201d \ufb01n", "\x1b[31mred", "\U0001f468\u200d\U0001f469",
]  # fmt: skip
JSONS: list[Any] = [
    b'{"a": "x", "b": "y"}', {"a": " x "}, '{"a": "x"}', b'{"a": null, "b": ["", " z ", "w"]}', b'{"a": 5}', b'{"a": {"c": "deep"}, "b": 1}',
    b'{"a.c": "dotted", "a": {"c": "deep"}}', b"{}", b"[]", b"{", b"\xff", {"b": ["", []]}, {"b": [["n"]]}, 5, b'"text"', {"b": True},
]  # fmt: skip
IMAGES: dict[str, Any] = {
    "jpeg": encoded(photo(64, 48), "JPEG"),
    "turned": encoded(photo(64, 48), "JPEG", exif=exif(6)),
    "grey": encoded(photo(40, 30).convert("L"), "JPEG"),
    "png": encoded(photo(33, 17), "PNG"),
    "alpha": encoded(photo(20, 10).convert("RGBA"), "PNG"),
    "deep": encoded(Image.new("I;16", (12, 9), 999), "PNG"),
    "gif": encoded(photo(9, 9).convert("P"), "GIF"),
    "large": encoded(Image.new("L", (300, 200)), "PNG"),
    "thin": encoded(Image.new("RGB", (200, 3)), "PNG"),
    "cut": encoded(photo(64, 48), "JPEG")[:700],
    "head": encoded(photo(64, 48), "PNG")[:20],
    "html": b"<html>",
    "none": None,
    "list": [1],
    "empty": b"",
    "view": memoryview(encoded(photo(8, 8), "PNG")),
}


def shown(value: Any) -> str:
    if isinstance(value, Image.Image):
        return f"<{value.mode} {value.width} x {value.height}>"
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    text = value.hex() if isinstance(value, memoryview) else repr(value)
    return text if len(text) < 200 else f"{text[:200]}..."


def outcome(stage: Any, samples: Iterable[dict[str, Any]]) -> list[str]:
    """What comes out of a stage, one line each, until an error; then what it has counted."""
    lines = []
    try:
        lines += [f"  {shown(each)}" for each in stage(dict(sample) for sample in samples)]
    except StageError as error:
        lines.append(f"  {error.slug}: {error}")
    counts = stage.counts
    told = [
        f"{name} {dict(getattr(counts, name))}"
        for name in ("dropped", "failed", "noted")
        if getattr(counts, name)
    ]
    return [
        *lines,
        f"  seen {counts.seen}, kept {counts.kept}{''.join(f', {each}' for each in told)}",
    ]


def check(name: str, stages: Sequence[Any], samples: Sequence[dict[str, Any]]) -> None:
    lines = []
    for stage in stages:
        about = [sorted(getattr(stage, what)) for what in ("reads", "writes", "removes")]
        lines += [f"{stage}  {about}", *outcome(stage, samples)]
    check_text(GOLDEN, name, "\n".join(lines))


def keyed(field: str, values: Iterable[Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"__key__": f"{at:02}", "__url__": "0.tar", field: value, **more}
        for at, value in enumerate(values)
    ]


def test_texts_are_cleaned_so():
    stages = [
        CleanText(on_error="drop"), CleanText(on_error="drop", fallback="cp1252", on_empty="keep", output="str", max_bytes=20),
        CleanText(on_error="drop", output="bytes", on_empty="raise"), CleanText(field="txt;alt", on_missing="keep"),
        CleanText(field="alt", on_missing="drop"), CleanText(field="alt"),
    ]  # fmt: skip
    check("clean_text", stages, keyed("txt", TEXTS))


def test_captions_are_taken_from_json_so():
    keys = ("a;b", "a.c;a", ("b", "a"))
    stages: list[Any] = [JsonText(key, on_error="drop") for key in keys]
    stages += [JsonText("a;b", output=output, on_error="drop") for output in ("str", "bytes")]
    stages += [
        JsonText("a;b", (0.5, 0.5), seed=seed, epoch=epoch, on_error="drop")
        for seed, epoch in ((0, 0), (1, 0), (0, 1))
    ]
    stages += [
        JsonText("a;b", (0, 1), on_error="drop"),
        JsonText("b", on_missing="raise"),
        JsonText("a", source="meta"),
    ]
    many = {f"n{at:02}": at for at in range(20)}
    check("json_text", stages, keyed("json", JSONS))
    for name, tree in {"many": many, "long": {"n" * 70: 1}, "a number": {"b": 1}}.items():
        check(f"json_text, {name}", [JsonText("b", on_missing="raise")], keyed("json", [tree]))
    over = [
        {"__key__": "a", "json": b'{"a": "new"}', "txt": b"old"},
        {"__key__": "b", "json": b"{"},
    ]
    check(
        "json_text over a text",
        [
            JsonText("a", on_target=each, on_error="drop")
            for each in ("raise", "drop", "replace", "keep")
        ],
        over,
    )


def test_fields_are_renamed_and_removed_so():
    samples = [
        {"__key__": "a", "__url__": "0.tar", "jpg": 1, "txt": 2},
        {"__key__": "b", "__url__": "0.tar", "png": 1, "jpg": 3, "json": 4},
        {"__key__": "c", "image": 5, "png": 6},
        {"__key__": "d"},
    ]
    names = {"image": "jpg;png", "text": "txt"}
    stages: list[Any] = [
        Rename(names, on_error="drop"),
        Rename(names, keep=False, on_missing="keep", on_conflict="first", on_target="keep"),
    ]
    for missing, conflict, target in (
        ("drop", "drop", "drop"),
        ("keep", "first", "replace"),
        ("keep", "raise", "raise"),
    ):
        stages.append(
            Rename(
                names, on_missing=missing, on_conflict=conflict, on_target=target, on_error="drop"
            )
        )
    stages += [
        Rename(names),
        Drop("jpg;json"),
        Drop(("txt",), on_missing="raise", on_error="drop"),
        Drop("txt", on_missing="raise"),
    ]
    stages += [
        HasFields("jpg;png"),
        HasFields(("jpg;png", "txt")),
        HasFields.of("image"),
        Sample(0.5),
        Sample(0.5, seed=3),
        Sample(1),
        Sample(0),
    ]
    check("fields", stages, samples)
    check("no key", [Sample(0.5, on_error="drop"), Sample(0.5)], [{"jpg": 1}])


def small(sample: dict[str, Any]) -> Any:
    return sample["n"] < 2


def test_samples_are_selected_batched_and_shuffled_so():
    samples = [
        {
            "__key__": str(at),
            "n": at,
            "txt": [0] * (at + 1),
            "image": np.zeros((at + 1, 4, 3), np.uint8),
        }
        for at in range(7)
    ]
    stages: list[Any] = [
        Batch(3), Batch(3, partial=False), Batch(max_tokens=8, text="txt"), Batch(max_tokens=4, text="txt", on_error="drop"),
        Batch(max_pixels=40), Batch(4, max_pixels=16, on_error="drop"),  Batch(max_tokens=9, text="n"),
        Batch(max_pixels=9, image="n"), Batch(max_pixels=9, image="other"), Shuffle(3), Shuffle(3, seed=1), Shuffle(3, epoch=1), Shuffle(4, initial=1),
        Shuffle(7, max_bytes=1), Shuffle(1), Unbatch(on_error="drop"),
    ]  # fmt: skip
    lines = []
    for stage in stages:
        found = outcome(stage, samples)
        keys = [each.partition("__key__: ")[2].partition(", n:")[0] or each for each in found]
        lines += [f"{stage}", "  " + " ".join(keys)]
    selected = Select(small, reason="large", fields="n")
    check_text(GOLDEN, "batches", "\n".join([*lines, *outcome(selected, samples[:4])]))
    odd = [
        {"__key__": ["a", "b"], "txt": ["x", "y"]},
        {"__key__": ["c"], "txt": ["x", "y"], "n": 5},
        {"txt": []},
        {"__key__": "abc", "n": [1, 2]},
    ]
    check("unbatch", [Unbatch(on_error="drop"), Unbatch()], odd)
    check(
        "other fields",
        [Batch(2, on_error="drop"), Batch(2)],
        [{"__key__": "a", "n": 1}, {"__key__": "b", "m": 1}, {"__key__": "c", "n": 2}],
    )


def test_images_are_decoded_and_resized_so():
    samples = [
        {"__key__": name, "__url__": "0.tar", "jpg": data} for name, data in IMAGES.items()
    ] + [{"__key__": "bare"}]
    stages: list[Any] = [
        Decode(), Decode(mode="exact", output="numpy", orientation="apply"), Decode(mode="reference"), Decode(target=8, k=1.0),
        Decode(target=(8, 30), output="numpy"), Decode(min_side=10, max_pixels=3071), Decode(min_side=9, max_pixels=3072),
        Decode(alpha=(255, 0, 0), high_depth="clip"), Decode(budget=20_000), Decode(fields="png;jpg"), Decode(on_error="raise"),
    ]  # fmt: skip
    check("decode", stages, samples[6:7] + samples[11:] + samples[:6] + samples[7:11])
    decoded = list(Decode()(dict(sample) for sample in samples[:4]))
    more: list[Any] = [
        {"__key__": "grey", "jpg": Image.new("L", (3, 3))},
        {"__key__": "float", "jpg": np.zeros((3, 3, 3))},
        {"__key__": "raw", "jpg": b"x"},
    ]
    more += [
        {"__key__": "flat", "jpg": np.zeros((3, 3), np.uint8)},
        {"__key__": "none", "jpg": np.zeros((0, 3, 3), np.uint8)},
        {"__key__": "four", "jpg": np.zeros((3, 3, 4), np.uint8)},
    ]
    more += [
        {"__key__": "array", "jpg": np.zeros((4, 9, 3), np.uint8)},
        {"__key__": "long", "jpg": Image.new("RGB", (90_000, 1))},
        {"__key__": "no"},
    ]
    check(
        "resize",
        [Resize(each, on_error="drop") for each in (10, (5, 7), 900)]
        + [Resize(10, crop=True), Resize(900, crop=True, on_error="drop")],
        [*decoded, *more],
    )


@pytest.mark.parametrize(
    ("number", "make"),
    list(
        enumerate(
            [
                Batch, lambda: Batch(0), lambda: Batch(max_tokens=0), lambda: Batch(max_bytes="1x"), lambda: Shuffle(0),
                lambda: Shuffle(3, initial=0), lambda: Shuffle(3, initial=4), lambda: Sample(1.5), lambda: Sample(-0.1), lambda: HasFields(()),
                lambda: HasFields(""), lambda: CleanText(fallback="cp99"), lambda: CleanText(""), lambda: CleanText(on_empty="dorp"),  # type: ignore[arg-type]
                lambda: JsonText(""), lambda: JsonText("a", (1.0, 2.0)), lambda: JsonText("a;b", (0, 0)), lambda: JsonText("a", (-1.0,)),
                lambda: Rename({}), lambda: Rename({"a": ""}), lambda: Rename({"a": "b", "c": "b"}), lambda: Rename({"a": "a"}), lambda: Drop(""),
                lambda: Decode(alpha=(1, 2)), lambda: Decode(alpha=(1, 2, 256)), lambda: Decode(k=0.9), lambda: Decode(target=0),  # type: ignore[arg-type]
                lambda: Decode(target=(3, 0)), lambda: Decode(mode="reference", orientation="apply"), lambda: Decode(mode="reference", alpha=(1, 2, 3)),
                lambda: Decode(fields=()), lambda: Resize(0), lambda: Resize((1, 0)), lambda: Resize((1, 2, 3)), lambda: Resize(3, fields=()),  # type: ignore[arg-type]
                lambda: Pipeline([Drop("a")]), lambda: Pipeline(5), lambda: Pipeline(Drop("jpg"), HasFields("jpg"), source="jpg"),  # type: ignore[arg-type,list-item]
                lambda: Pipeline(Unbatch()), lambda: Pipeline(Drop("x"), Unbatch()), lambda: Pipeline(Batch(2), Drop("x")), lambda: Pipeline(Batch(2), Unbatch(), Batch(2)),
                lambda: Pipeline(Drop("txt"), JsonText("a"), CleanText()), lambda: Pipeline(Drop("txt"), CleanText()), lambda: Pipeline(Drop("txt"), iter, CleanText()),
                lambda: Pipeline(CleanText(), iter, source=["json"]), lambda: Pipeline(CleanText(), iter, JsonText("a"), source=["json"]),
                lambda: Pipeline(CleanText(), source=["text"]), lambda: Pipeline(CleanText("caption"), source=["txt", "text"]), lambda: Pipeline(CleanText("alt"), source=["json"]),
                lambda: Pipeline(CleanText("text"), source=["json"]), lambda: Pipeline(CleanText("capton"), source=["caption"]), lambda: Pipeline(CleanText("x"), source=[]),
                lambda: Pipeline(Resize(3, fields="image"), source=["png", "jpg"]), lambda: Pipeline(iter, Unbatch()), lambda: Pipeline(Batch(2), iter, Unbatch()),
                lambda: Pipeline(iter, Drop("x"), Unbatch()), lambda: Pipeline(*[Drop("x")] * 2), lambda: Pipeline(Batch(2), Batch(2)), lambda: Pipeline(Unbatch(), Unbatch()),
                lambda: Pipeline(CleanText(), Drop("x"), source=["json"]), lambda: Pipeline(CleanText("alt;txt"), Drop("x"), JsonText("a"), source=["json"]),
            ]
        )
    ),
)  # fmt: skip
def test_what_is_accepted_and_what_is_refused_with_these_words(
    number: int, make: Callable[[], object]
):
    try:
        text = repr(make())
    except (ValueError, TypeError) as error:
        text = f"{type(error).__name__}: {error}"
    check_text(GOLDEN, f"made {number:02}", text)


def test_a_pipeline_is_described_and_reported_so():
    samples = [
        {"__key__": str(at), "jpg": data, "json": json.dumps({"a": text}).encode()}
        for at, (data, text) in enumerate(
            zip(IMAGES.values(), ["a  cat", "", "b"] * 6, strict=False)
        )
    ]
    pipeline = Pipeline(
        JsonText("a"),
        CleanText(),
        Decode(target=8),
        Drop("json"),
        Resize(8, crop=True),
        iter,
        Batch(2),
        Unbatch(),
    )
    found = [shown(each) for each in pipeline(samples)]
    check_text(
        GOLDEN,
        "pipeline",
        "\n".join([repr(pipeline), str(pipeline), pipeline.report(), *found, str(pipeline.counts)]),
    )
