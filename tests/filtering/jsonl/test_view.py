import json

import pytest

from tests.filtering.jsonl.files import END, IMAGE, write_images, write_lines
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.shards.source.opening import open_source
from wdsflow.stages.scores import ScoreError
from wdsflow.stages.scores.sample_view import ViewOptions


def views(folder, *texts, images=3):
    names = write_images(folder, images)
    lines = [json.dumps({"text": text, "images": names, "note": "kept"}).encode() for text in texts]
    path = str(write_lines(folder, lines))
    with open_source(path) as source:
        rows, of = kind_of(path).opened(source, path, Recipe(), ViewOptions(), contents=False)
        return [of.view(row) for row in rows]


def test_captions_go_with_the_images_of_their_own_chunk(tmp_path):
    (view,) = views(tmp_path, f"{IMAGE} a{END}no image{END}{IMAGE}{IMAGE} b")
    assert view.image_names() == ("0.jpg", "1.jpg", "2.jpg")
    assert view.captions() == ["a", "b"]
    assert view.pairs() == [("a", ("0.jpg",)), ("b", ("1.jpg", "2.jpg"))]
    assert view.pairs(image="1.jpg") == [("b", ("1.jpg",))]
    assert view.pairs(caption="json:note") == [("kept", ("0.jpg", "1.jpg", "2.jpg"))]


def test_captions_go_with_the_videos_of_their_own_chunk(tmp_path):
    names = [f"{number}.mp4" for number in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(b"film")
    texts = (f"<__dj__video> a{END}none{END}<__dj__video><__dj__video> b", f"one{END}two")
    rows = [{"text": texts[0], "videos": names, "note": "kept"}, {"text": texts[1]}]
    path = str(write_lines(tmp_path, [json.dumps(row).encode() for row in rows]))
    with open_source(path) as source:
        found, of = kind_of(path).opened(source, path, Recipe(), ViewOptions(), contents=False)
        view, bare = (of.view(row) for row in found)
    assert view.video_pairs() == [("a", ("0.mp4",)), ("b", ("1.mp4", "2.mp4"))]
    assert view.video_pairs(video="1.mp4") == [("b", ("1.mp4",))]
    assert view.video_pairs(caption="json:note") == [("kept", ("0.mp4", "1.mp4", "2.mp4"))]
    with pytest.raises(ScoreError, match="no-video"):
        bare.video_pairs()


def test_fields_can_be_named_as_in_tars(tmp_path):
    (view,) = views(tmp_path, f"{IMAGE} one", images=1)
    assert view.image_names("jpg") == view.image_names() == ("jpg",)
    assert view.captions("txt") == view.captions() == ["one"]
    assert view.json()["note"] == "kept"


def test_half_a_surrogate_pair_is_a_caption_that_is_not_text(tmp_path):
    (view,) = views(tmp_path, f"{IMAGE} half \ud800 a pair", images=1)
    assert view.captions() == ["half \ud800 a pair"]
    with pytest.raises(ScoreError, match="not-utf8"):
        view.captions("txt")


def test_a_row_of_text_alone_has_captions_and_no_pairs(tmp_path):
    (view,) = views(tmp_path, f"one{END}two", images=0)
    assert view.captions() == ["one", "two"]
    with pytest.raises(ScoreError, match="no-image"):
        view.pairs()


def test_an_image_that_goes_while_rows_are_read_is_an_error_of_its_row(tmp_path):
    (view,) = views(tmp_path, f"{IMAGE} one", images=1)
    (tmp_path / "images/0.jpg").unlink()
    with pytest.raises(ScoreError, match="missing-file"):
        view.headers()
