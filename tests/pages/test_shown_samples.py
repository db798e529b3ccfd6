"""Samples of a tar as pages show them."""

import base64
import io
from pathlib import Path

import pytest
from PIL import Image

from tests.pictures import encoded, photo
from tests.shards.archives import write_tar
from wdsflow.pages.page_samples import image_field, samples_around, samples_at, samples_of
from wdsflow.pages.sample_views import SampleView, sample_view
from wdsflow.pages.thumbnails import thumbnail
from wdsflow.shards.shard import Shard


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    entries = [
        *[
            ("a.jpg", encoded(photo(300, 200), "JPEG")),
            ("a.txt", b"x" * 500),
            ("a.json", b'{"a": 1}'),
        ],
        *[("README", b"no sample"), ("b.txt", b"y" * 501), ("b.jpg", b"<html>")],
        *[("b.jpg", b""), ("c.cls", b"7"), ("a.txt", "é".encode() * 600 + b"\xff")],
    ]
    return Shard.file(str(write_tar(tmp_path / "0.tar", entries)))


def test_samples_are_neighbours_of_one_key_and_no_two_of_one_field(shard: Shard) -> None:
    found = []
    for sample in samples_of(shard):
        found.append((sample.key, [*sample.rows]))
        if len(found) == 1:
            read = [sample.read(*asked) for asked in (("txt", 3), ("txt", 900), ("none", 3))]
            assert read == [b"xxx", b"x" * 500, b""]
    assert found == [
        ("a", ["jpg", "txt", "json"]),
        ("b", ["txt", "jpg"]),
        ("b", ["jpg"]),
        ("c", ["cls"]),
        ("a", ["txt"]),
    ]


def test_a_view_has_picture_or_trouble_and_texts_of_500_characters(shard: Shard) -> None:
    first, html, empty, label, last = map(sample_view, samples_of(shard))
    assert first.image.startswith("data:image/webp;base64,")
    assert first == SampleView("a", first.image, "", "300 x 200", "x" * 500, '{"a": 1}')
    assert html == SampleView("b", "", html.trouble, "", "y" * 500 + "…", "")
    assert "not-an-image" in html.trouble
    assert (empty.size, empty.image, bool(empty.trouble)) == ("", "", True)
    assert label == SampleView("c")
    assert last.caption == "é" * 500 + "…"


def test_samples_are_found_by_the_offsets_of_their_members(shard: Shard) -> None:
    starts = [min(row[3] for row in sample.rows.values()) for sample in samples_of(shard)]
    at = [
        (start, sample.key, [*sample.rows])
        for start, sample in samples_at(shard, [starts[3], starts[0]])
    ]
    assert at == [(starts[0], "a", ["jpg", "txt", "json"]), (starts[3], "c", ["cls"])]
    inside = next(samples_of(shard)).rows["txt"][3]
    around = [
        (offset, sample.key, len(sample.rows))
        for offset, sample in samples_around(shard, [starts[4], inside, 0])
    ]
    assert around == [(0, "a", 3), (inside, "a", 3), (starts[4], "a", 1)]
    assert (
        list(samples_at(Shard.file(f"{shard}.none"), [0]))
        == list(samples_around(Shard.file(f"{shard}.none"), [0]))
        == []
    )


def test_a_thumbnail_has_at_most_128_pixels_a_side() -> None:
    found = thumbnail(encoded(photo(300, 200), "PNG"))
    with Image.open(io.BytesIO(base64.b64decode(found.url.partition(",")[2]))) as image:
        assert (image.size, image.format) == ((128, 85), "WEBP")
    assert found.trouble == ""
    refused = thumbnail(b"<html>")
    assert (refused.url, refused.trouble.startswith("not-an-image: ")) == ("", True)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (["txt", "jpg"], "jpg"),
        (["gif", "webp", "png"], "png"),
        (["seg.PNG", "tif", "txt"], "seg.PNG"),
        (["a.jpg", "jpg"], "a.jpg"),
        (["tif", "tiff", "bmp"], "bmp"),
        (["txt", "mp4"], None),
        ([], None),
    ],
)
def test_the_image_of_a_sample_is_the_field_that_readers_take_first(
    fields: list[str], name: str | None
) -> None:
    assert image_field(fields) == name
