"""Frames of videos as images of the scores that models compute."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from support.one_score import compute

from tests.shards.archives import write_tar
from tests.stages.scores.fields import made
from tests.videos import at_keys, filmed, frame, sampled, video
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.models.models_at import _models_at
from wdsflow.stages.scores import ScoreError, View, ViewOptions

pytest.importorskip("av", reason="PyAV is not installed")
pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import torch

from tests.stages.scores import tiny_models

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SLIGHT = 3e-5
HERE = RunOptions(jobs=0, device="cpu")
REDUCED = {"mean": np.mean, "max": np.max, "min": np.min}


@pytest.fixture(scope="module", autouse=True)
def forget_models():
    """Other tests count the models that are loaded."""
    yield
    _models_at.cache_clear()


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Makes each score with a tiny model, by name."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(3)
    torch.save({"weight": torch.randn(1, 16), "bias": torch.zeros(1)}, folder / "head.pth")
    for name in ("classifier", "matcher"):
        (folder / name).mkdir()
    clip = {"model": tiny_models.clip(folder / "clip"), "pretrained": ""}
    own = {
        "clip_similarity": clip,
        "zero_shot": {**clip, "labels": "a cat;two dogs"},
        "aesthetic": {**clip, "head": str(folder / "head.pth")},
        "classify": {"model": tiny_models.image_classifier(folder / "classifier"), "label": "NSFW"},
        "image_text_match": {"model": tiny_models.matcher(folder / "matcher")},
    }
    return lambda name, **settings: made(name, **own[name], **settings)


NAMES = ["clip_similarity", "zero_shot", "aesthetic", "classify", "image_text_match"]
FILM = video(40)


def png(image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "reduce", ["mean", *(pytest.param(each, marks=pytest.mark.deep) for each in ("max", "min"))]
)
@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_video_is_that_of_its_frames_put_together(scores, name, reduce):
    alone = [
        compute(scores(name), {"png": png(image), "txt": b"a red cat"})
        for image in sampled(FILM, 3)
    ]
    assert len({round(value, 4) for value in alone}) > 1 or name == "zero_shot"
    found = compute(scores(name, reduce=reduce), {"mp4": FILM, "txt": b"a red cat"})
    assert found == pytest.approx(
        float(REDUCED[reduce](alone)), abs=2e-4 if name == "aesthetic" else SLIGHT
    )


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_key_frames_may_be_taken(scores, name):
    keys = at_keys(FILM)
    alone = [compute(scores(name), {"png": png(image), "txt": b"a red cat"}) for image in keys]
    found = compute(scores(name, sampling="key", frames=0), {"mp4": FILM, "txt": b"a red cat"})
    assert len(keys) > 3
    assert found == pytest.approx(
        float(np.mean(alone)), abs=2e-4 if name == "aesthetic" else SLIGHT
    )


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_images_come_before_videos_unless_the_video_is_named(scores, name):
    image = {"png": png(frame(3)), "txt": b"a red cat"}
    assert compute(scores(name), {**image, "mp4": FILM}) == compute(scores(name), image)
    of_film = compute(scores(name), {"mp4": FILM, "txt": b"a red cat"})
    assert compute(scores(name, video="mp4"), {**image, "mp4": FILM}) == of_film


@pytest.mark.deep
def test_several_videos_have_a_value_each_and_captions_are_compared_with_all_of_them(scores):
    short = video(2)
    fields = {"0.mp4": FILM, "1.mp4": short, "txt": b"a red cat"}
    alone = [compute(scores("classify"), {"mp4": each}) for each in (FILM, short)]
    assert compute(scores("classify"), fields) == alone
    matched = compute(scores("image_text_match"), fields)
    parts = [
        compute(scores("image_text_match"), {"mp4": each, "txt": b"a red cat"})
        for each in (FILM, short)
    ]
    assert matched == pytest.approx((3 * parts[0] + 2 * parts[1]) / 5, abs=SLIGHT)
    cosines = compute(scores("clip_similarity"), fields)
    parts = [
        compute(scores("clip_similarity"), {"mp4": each, "txt": b"a red cat"})
        for each in (FILM, short)
    ]
    assert cosines == pytest.approx((3 * parts[0] + 2 * parts[1]) / 5, abs=SLIGHT)


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_is_told(scores, name):
    def slug(fields: dict[str, bytes], **settings: str) -> str:
        with pytest.raises(ScoreError) as failed:
            compute(scores(name, **settings), fields)
        return failed.value.slug

    assert slug({"txt": b"x"}) == "no-image"
    assert slug({"txt": b"x", "png": png(frame(1))}, video="mp4") == "no-video"
    assert slug({"txt": b"x", "mp4": FILM[:400]}) == "undecodable"
    assert slug({"txt": b"x", "mp4": b"no video"}) == "not-a-video"
    with pytest.raises(ValueError, match="image or video"):
        scores(name, image="jpg", video="mp4")
    with pytest.raises(ValueError, match="frames=0"):
        scores(name, frames=0)


def test_one_frame_of_full_size_is_held_at_a_time(scores):
    large = filmed([frame(number, (640, 480)) for number in range(12)])
    view = View({"mp4": large, "txt": b"a red cat"}, ViewOptions(budget=6 << 20))
    score = scores("clip_similarity", frames=12)
    assert len(score.requests(view)) == 13
    with pytest.raises(ScoreError, match="would take more than"):
        view.frames("mp4", score.frame_sampling)
    small = View({"mp4": large, "txt": b"a red cat"}, ViewOptions(budget=4 << 20))
    with pytest.raises(ScoreError, match="would take more than"):
        score.requests(small)


def test_scores_of_one_model_share_the_frames(scores):
    view = View({"mp4": FILM, "txt": b"a red cat"})
    first, second = scores("clip_similarity").requests(view), scores("aesthetic").requests(view)
    assert [request.key for request in first[:3]] == [request.key for request in second]
    assert len({request.key for request in second}) == 3
    assert all(one.make() is other.make() for one, other in zip(first[:3], second, strict=True))
    other = scores("aesthetic", frames=4).requests(view)
    assert {request.key for request in other}.isdisjoint(request.key for request in second)


@pytest.mark.deep
def test_neighbours_do_not_show(scores, tmp_path: Path):
    score, texts = scores("clip_similarity"), [b"a red cat", b"two dogs", b"is very blue"]
    films = [video(40), video(9), video(25)]
    members = [
        (f"{number}.{end}", data)
        for number, (film, text) in enumerate(zip(films, texts, strict=True))
        for end, data in (("mp4", film), ("txt", text))
    ]
    write_tar(
        tmp_path / "0.tar", [*members[:2], ("x.mp4", FILM[:500]), ("x.txt", b"cut"), *members[2:]]
    )
    call = f'clip_similarity(model="{score.model}", pretrained="")'
    report = measure_shards(
        str(tmp_path / "0.tar"), tmp_path / "out", Recipe(scores=(call,), embeddings=True), HERE
    )
    assert report.total("samples") == 4
    import pyarrow.parquet as pq

    rows = pq.read_table(tmp_path / "out" / ".wdsflow" / "ledger" / "0.parquet").to_pylist()
    found = [row[call] for row in rows]
    expected = [
        compute(score, {"mp4": film, "txt": text}) for film, text in zip(films, texts, strict=True)
    ]
    assert found[1] is None
    assert rows[1]["failed"][0]["error"] == "undecodable"
    assert [found[0], *found[2:]] == pytest.approx(expected, abs=SLIGHT)
    (keys,) = [
        each for name, each in json.loads(rows[0]["embedded"]).items() if name.startswith("image")
    ]
    assert [key.partition("/av ")[0] for key in keys] == [
        "mp4/uniform/3/0",
        "mp4/uniform/3/1",
        "mp4/uniform/3/2",
    ]
    again = tmp_path / "again"
    measure_shards(
        str(tmp_path / "0.tar"),
        again,
        Recipe(scores=(call,)),
        HERE,
        embeddings_from=tmp_path / "out",
    )
    halved = pq.read_table(again / ".wdsflow" / "ledger" / "0.parquet").column(call).to_pylist()
    assert [halved[0], *halved[2:]] == pytest.approx(expected, abs=0.001)
