import pickle
from functools import cache
from statistics import mean

import pyarrow.parquet as pq
import pytest

pytest.importorskip("av")
pytest.importorskip("easyocr")
pytest.importorskip("easyocr_en_models")

from tests.pictures import encoded, smooth
from tests.shards.archives import write_tar
from tests.stages.scores.fields import made
from tests.stages.scores.ocr.texts import WEIGHTS, bare, by_data_juicer, computed, tilted, value
from tests.videos import at_keys, filmed, sampled, written
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.stages.scores import ScoreError, View, ViewOptions, make_score
from wdsflow.stages.scores.model.ocr.text_detector import TextDetector
from wdsflow.stages.scores.model.ocr.text_reader import TextReader

WORDS = ("first words here", "first words here", "the middle", "nothing", "", "end of it all now")


@cache
def film():
    """A video with text that comes and goes."""
    pictures = [
        written(WORDS[number // 2], back=("white", "pink")[number % 2]) for number in range(12)
    ]
    return filmed(pictures, keys=4, rate=5)


def png(image, caption="the words are these"):
    return {"png": encoded(image, "PNG"), "txt": caption.encode()}


def slug(name, fields, **settings):
    with pytest.raises(ScoreError) as caught:
        value(name, fields, **settings)
    return caught.value.slug


@pytest.mark.deep
@pytest.mark.parametrize(("reduce", "reduced"), [("mean", mean), ("max", max), ("min", min)])
def test_the_area_of_a_video_is_data_juicers(reduce, reduced):
    areas = [by_data_juicer(image) for image in sampled(film(), 3)]
    assert len(set(areas)) == 3
    found = value("ocr_area", {"mp4": film(), "txt": b"x"}, area="sum", reduce=reduce)
    assert found == pytest.approx(reduced(areas), abs=1e-6)


@pytest.mark.deep
def test_key_frames_can_be_looked_at_instead():
    areas = [by_data_juicer(image) for image in at_keys(film())]
    found = value("ocr_area", {"mp4": film()}, area="sum", sampling="key", frames=0)
    assert len(areas) >= 3
    assert found == pytest.approx(sum(areas) / len(areas), abs=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize(
    "image",
    [written("word"), pytest.param(tilted("leaning words"), marks=pytest.mark.deep)],
    ids=["upright", "tilted"],
)
def test_the_area_of_an_image_is_the_sum_or_the_union_of_what_is_detected(image):
    total = value("ocr_area", png(image), area="sum")
    assert total == pytest.approx(by_data_juicer(image), abs=1e-6)
    assert 0.03 < value("ocr_area", png(image)) <= total


@pytest.mark.deep
def test_an_image_without_text_has_no_area_of_text():
    assert (
        value("ocr_area", png(smooth(96, 64)))
        == value("ocr_area", png(smooth(96, 64)), area="sum")
        == 0
    )


@pytest.mark.deep
def test_images_come_before_videos_unless_the_video_is_named():
    sample = {**png(written("a thumbnail with text")), "mp4": film()}
    thumbnail = value("ocr_area", sample)
    assert value("ocr_area", sample, image="png") == thumbnail
    assert (
        value("ocr_area", sample, video="mp4", frames=1)
        == value("ocr_area", {"mp4": film()}, frames=1)
        != thumbnail
    )


@pytest.mark.deep
def test_several_videos_have_a_value_each_though_their_numbers_of_frames_differ():
    one = filmed([written("one frame")])
    sample = {"0.mp4": one, "1.mp4": film()}
    assert value("ocr_area", sample) == [value("ocr_area", {"mp4": each}) for each in (one, film())]


def test_what_cannot_be_looked_at_is_an_error_and_never_a_share_of_nothing():
    assert slug("ocr_area", {"txt": b"x"}) == "no-image"
    assert slug("ocr_area", {"mp4": film(), "txt": b"x"}, image="jpg") == "no-image"
    assert slug("ocr_area", png(written("x")), video="mp4") == "no-video"
    assert slug("ocr_area", {"jpg": b"<html>"}) == "not-an-image"
    assert slug("ocr_area", {"mp4": film()[: len(film()) // 2]}) in {"truncated", "undecodable"}
    assert slug("ocr_area", {"mp4": film()}, options=ViewOptions(budget=100_000)) == "over-budget"


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(written("some words", "to find"), marks=pytest.mark.deep),
        tilted("leaning words"),
        pytest.param(written("Wide 123", size=(400, 96)), marks=pytest.mark.deep),
    ],
)
def test_text_is_what_bare_easyocr_reads(image):
    import numpy as np

    expected = " ".join(text for _, text, _ in bare(recognizer=True).readtext(np.asarray(image)))
    assert expected
    assert value("ocr_text", png(image)) == expected


@pytest.mark.deep
def test_unsure_lines_can_be_left_out():
    image = written("some words", "to find")
    assert value("ocr_text", png(image), confidence=1.01) == ""
    assert value("ocr_text", png(smooth(96, 64))) == ""


@pytest.mark.deep
def test_frames_with_the_same_text_are_told_once():
    read = value("ocr_text", {"mp4": film()}, frames=6).split("\n")
    assert len(read) == len(set(read))
    assert {"first words here", "the middle", "end of it all now"} <= {
        each.lower() for each in read
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("Some words to find", 1.0),
        ("some WORDS, some!", 1.0),
        ("a photo of some words", 0.4),
        ("ｗｏｒｄｓ", 1.0),
        ("nothing of it", 0.0),
        ("?!", 0.0),
    ],
)
def test_overlap_is_the_share_of_the_captions_words_that_are_read(caption, expected):
    assert value("ocr_caption_overlap", png(written("some words", "to find"), caption)) == expected


def test_overlap_needs_a_caption():
    assert slug("ocr_caption_overlap", {"png": encoded(written("some"), "PNG")}) == "no-caption"


@pytest.mark.deep
def test_overlap_takes_the_text_of_all_images():
    images = {"0.png": encoded(written("some"), "PNG"), "1.png": encoded(written("words"), "PNG")}
    captions = {"0.txt": b"some words", "1.txt": b"other words"}
    assert value("ocr_caption_overlap", {**images, **captions}) == [1.0, 0.5]


def test_scores_that_look_at_the_same_share_model_and_items():
    view = View(png(written("words")))
    area, text, overlap = (made(f"ocr_{name}") for name in ("area", "text", "caption_overlap"))
    assert text.models() == overlap.models()
    assert text.models()[0] == area.models()[0]
    assert text.requests(view)[0][:2] == overlap.requests(view)[0][:2]
    assert text.requests(view)[0].after[:2] == area.requests(view)[0][:2]
    held = [asked.make() for asked in (area.requests(view)[0], text.requests(view)[0].after)]
    assert held[0] is held[1]
    assert made("ocr_area", area="sum").models() == area.models()


@pytest.mark.deep
def test_text_is_found_once_for_all_scores_that_want_it(tmp_path, monkeypatch):
    members = [
        (f"{number}.{field}", data)
        for number in range(3)
        for field, data in png(written(("first", "second", "third")[number])).items()
    ]
    write_tar(tmp_path / "0.tar", [*members, ("3.png", b"no image"), ("3.txt", b"x")])
    runs = {TextDetector: [], TextReader: []}

    def counting(whole, seen):
        def run(self, loaded, batch):
            seen.extend(batch)
            return whole(self, loaded, batch)

        return run

    monkeypatch.setattr(TextDetector, "run", counting(TextDetector.run, runs[TextDetector]))
    monkeypatch.setattr(TextReader, "run", counting(TextReader.run, runs[TextReader]))
    found = {}
    for name, names in (
        ("all", "ocr_area,ocr_text,ocr_caption_overlap"),
        ("area", "ocr_area"),
        ("text", "ocr_text"),
    ):
        recipe = Recipe(scores=tuple(names.split(",")))
        measure_shards(str(tmp_path / "0.tar"), tmp_path / name, recipe, RunOptions(jobs=0))
        found[name] = pq.read_table(tmp_path / name / ".wdsflow/ledger/0.parquet")
        counts = {model.__name__: len(seen) for model, seen in runs.items()}
        assert counts == {"TextDetector": 3, "TextReader": 0 if name == "area" else 3}
        for seen in runs.values():
            seen.clear()
    for name in ("area", "text"):
        assert found["all"][f"ocr_{name}"] == found[name][f"ocr_{name}"]
    assert found["all"]["ocr_text"].to_pylist()[:3] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frames": 0}, "at least 1"),
        ({"frames": -1, "sampling": "key"}, "or 0 for all"),
        ({"area": "hull"}, "not one of 'union', 'sum'"),
        ({"image": "jpg", "video": "mp4"}, "image or video"),
        ({"canvas": 0}, "canvas"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_score("ocr_area", **settings)


@pytest.mark.deep
def test_settings_travel_and_what_easyocr_lacks_is_refused():
    score = make_score("ocr_area", area="sum", frames=5, weights=WEIGHTS)
    assert pickle.loads(pickle.dumps(score)) == score
    assert computed(pickle.loads(pickle.dumps(score)), View(png(written("words")))) > 0
    with pytest.raises(ValueError, match="EasyOCR knows no such code"):
        made("ocr_text", language="../en").models()[1].load("cpu")
    with pytest.raises(ValueError, match=r"EasyOCR has .*english_g2"):
        made("ocr_text", network="none").models()[1].identity()
