"""Stages that write text, before and after ``wds.decode``, in real pipelines over real shards."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.training.shards import jpeg, write_tar
from wdsflow.stages import CleanText, Decode, JsonText, Pipeline, Rename, Tokenize

wds = pytest.importorskip("webdataset")
pytestmark = [
    pytest.mark.webdataset,
    # Webdataset leaves shards open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CAPTIONS = ["a cat", "une  flèche &amp; un arc"]  # the second one is cleaned
CLEAN = ["a cat", "une flèche & un arc"]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    members = []
    for number, caption in enumerate(CAPTIONS):
        tree = {"caption": None, "alt": [caption]}
        members += [
            (f"{number}.jpg", jpeg(number)),
            (f"{number}.json", json.dumps(tree).encode()),
            (f"{number}.text", f"old {number}".encode()),
        ]
    return write_tar(tmp_path_factory.mktemp("decode") / "0.tar", members)


def run(shard: Path, *stages: Any) -> list[dict[str, Any]]:
    return list(
        wds.DataPipeline(wds.SimpleShardList([str(shard)]), wds.tarfile_to_samples(), *stages)
    )


TEXTS = (
    JsonText("caption;alt"),
    CleanText(),
    Rename({"transcript": "txt"}),
    Rename({"txt": "transcript"}),
)


@pytest.mark.parametrize("form", ["one by one", "as a pipeline"])
@pytest.mark.parametrize("cut", range(len(TEXTS) + 1))
def test_stages_that_write_text_stand_on_either_side_of_decode(shard, cut, form):
    before, after = TEXTS[:cut], TEXTS[cut:]
    if form == "as a pipeline":
        before = (Pipeline(*before),) if before else ()
        after = (Pipeline(*after, source="*"),) if after else ()
    found = run(shard, *before, wds.decode("pilrgb"), *after)
    assert [sample["txt"] for sample in found] == CLEAN
    assert [sample["json"]["alt"] for sample in found] == [[caption] for caption in CAPTIONS]
    assert all(isinstance(sample["jpg"], Image.Image) for sample in found)


@pytest.mark.parametrize("before", [True, False])
def test_a_text_that_was_there_is_replaced_on_either_side_of_decode(shard, before):
    stages = [JsonText("alt", target="text"), wds.decode("pilrgb")]
    assert [sample["text"] for sample in run(shard, *stages[:: 1 if before else -1])] == CAPTIONS


def test_without_decode_texts_stay_bytes_and_tokenize_takes_them(shard):
    def tokenizer(text: str) -> list[list[int]]:
        return [[*map(ord, text), *[0] * 80][:80]]

    def tokens(*stages: Any) -> list[list[int]]:
        return [list(sample["txt"]) for sample in run(shard, *stages, Tokenize(tokenizer))]

    raw = run(shard, *TEXTS)
    assert [sample["txt"] for sample in raw] == [caption.encode() for caption in CLEAN]
    assert (
        tokens(*TEXTS)
        == tokens(*TEXTS, wds.decode())
        == tokens(JsonText("alt", output="str"), CleanText())
    )


def test_decode_of_this_project_stands_after_that_of_webdataset_or_in_its_place(shard):
    only_texts = wds.decode(only=["txt", "json"])
    before, after = (
        run(shard, TEXTS[0], only_texts, Decode()),
        run(shard, TEXTS[0], Decode(), wds.decode(partial=True)),
    )
    assert before
    for sample, other in zip(before, after, strict=True):
        assert sample["txt"] == other["txt"]
        assert (
            sample["jpg"].tobytes()
            == other["jpg"].tobytes()
            == _reference(shard, sample["__key__"])
        )


def _reference(shard: Path, key: str) -> bytes:
    [raw] = [sample["jpg"] for sample in run(shard) if sample["__key__"] == key]
    pixels: bytes = Decode().decode(raw).tobytes()
    return pixels
