"""clip_similarity compared with transformers' CLIPModel, with the same weights.

Data-Juicer computes its similarity with CLIPModel.
"""

import io
import random
from functools import cache

import numpy as np
import pytest
from PIL import Image
from support.one_score import compute

from tests.pictures import encoded, photo, smooth
from tests.stages.scores.fields import made
from wdsflow.stages.scores import View
from wdsflow.stages.scores.model.clip.clip_tokens import clip_item
from wdsflow.stages.scores.model.clip.hf_tokens import hf_tokens
from wdsflow.stages.scores.model.pictures.geometry import Geometry
from wdsflow.stages.scores.model.pictures.prepare import Prepare

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

import open_clip
import torch
from safetensors.torch import load_file
from support.bench.hf_clip import write_hf_clip
from transformers import CLIPImageProcessor, CLIPModel, CLIPProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from tests.stages.scores import tiny_models

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# OpenCLIP's tokenizer repairs these first (ftfy, entities
# of HTML), or has other special tokens than transformers'.
REPAIRED = [
    "it\u2019s a \u201cred\u201d cat",
    "cats &amp; dogs",
    "a \ufb01sh",
    "\uff41 \uff22\uff2c\uff35\uff25 dog",
    "caf\u00c3\u00a9",
    "a\x00b",
    "a <|endoftext|> b",
]
CAPTIONS = ["a red cat", "Two DOGS, on a very blue photo!", "a " * 40, "\u732b and n\u00e4me", ""]
CONTEXT = 16


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same CLIP, as OpenCLIP has it and as transformers does."""
    root = tmp_path_factory.mktemp("clip")
    text = {**tiny_models.CLIP["text_cfg"], "context_length": CONTEXT}
    ours = tiny_models.clip(root / "ours", text_cfg=text)
    torch.save(
        load_file(root / "ours/open_clip_model.safetensors"),
        root / "ours/open_clip_pytorch_model.bin",
    )
    (root / "theirs").mkdir()
    write_hf_clip(root / "ours", root / "theirs")
    (root / "ours/open_clip_pytorch_model.bin").unlink()
    return ours, root / "theirs"


@cache
def loaded_by_transformers(folder):
    """Return processor and model.

    The processor uses Pillow, and so gets the same pictures as wdsflow. With torchvision they
    differ by one level.
    """
    images = CLIPImageProcessorPil.from_pretrained(folder)
    tokenizer = CLIPProcessor.from_pretrained(folder).tokenizer
    return CLIPProcessor(images, tokenizer), CLIPModel.from_pretrained(folder).eval()


@torch.inference_mode()
def by_transformers(folder, image, caption):
    """Return logits_per_text / 100, as Data-Juicer's image_text_similarity_filter has it."""
    processor, model = loaded_by_transformers(folder)
    inputs = processor(
        text=caption,
        images=image,
        return_tensors="pt",
        truncation=True,
        max_length=CONTEXT,
        padding=True,
    )
    return float(model(**inputs).logits_per_text / 100)


@pytest.mark.sample(1)
@pytest.mark.parametrize("caption", CAPTIONS)
def test_similarity_is_that_of_transformers_clip_for_the_same_pixels(folders, caption):
    ours, theirs = folders
    for seed in range(3):
        data = encoded(photo(32, 32, seed), "PNG")  # of the model's size: nothing is resized
        expected = by_transformers(theirs, Image.open(io.BytesIO(data)), caption)
        found = compute(
            made("clip_similarity", model=ours, pretrained=""),
            {"png": data, "txt": caption.encode()},
        )
        assert found == pytest.approx(expected, abs=2e-5)


@pytest.mark.deep
def test_with_transformers_processor_it_is_the_same_for_every_caption(folders):
    ours, theirs = folders
    data = encoded(photo(32, 32), "PNG")

    def similarity(caption, **settings):
        score = made("clip_similarity", model=ours, pretrained="", **settings)
        return compute(score, {"png": data, "txt": caption.encode()})

    for caption in (*CAPTIONS, *REPAIRED, "\U0001f468\u200d\U0001f469 cafe\u0301"):
        expected = by_transformers(theirs, Image.open(io.BytesIO(data)), caption)
        assert similarity(caption, processor="hf") == pytest.approx(expected, abs=2e-5), caption
        assert (abs(similarity(caption) - expected) > 1e-3) == (caption in REPAIRED), caption


def test_without_repairs_both_tokenizers_give_the_same_tokens():
    words = open_clip.get_tokenizer("ViT-B-32")
    for caption in ("a red cat", "Two DOGS, on a very blue photo!"):
        expected = [token for token in words(caption)[0].tolist() if token]
        assert hf_tokens(caption, 77) == expected


def test_labels_and_captions_are_tokenised_alike(folders):
    ours, _ = folders
    labels = "it\u2019s a red cat;two dogs"
    for by in ("openclip", "hf"):
        text = made("clip_similarity", model=ours, pretrained="", processor=by).models()[1]
        loaded = (
            made("zero_shot", model=ours, pretrained="", processor=by, labels=labels)
            .models()[1]
            .load("cpu")
        )
        with torch.inference_mode():
            captions = text.run(
                text.load("cpu"), [clip_item(ours, each, by) for each in labels.split(";")]
            )
        assert np.abs(loaded[1] - np.stack(captions)).max() < 2e-5


def test_another_processor_makes_another_score_and_other_embeddings(folders):
    ours, _ = folders
    (image, text), (same, other) = (
        made("clip_similarity", model=ours, pretrained="", processor=by).models()
        for by in ("openclip", "hf")
    )
    assert image.identity() == same.identity()
    assert text.identity() != other.identity()
    plain, score = (
        made("clip_similarity", model=ours, pretrained="", processor=by)
        for by in ("openclip", "hf")
    )
    view = View({"png": encoded(photo(32, 32), "PNG"), "txt": b"a"})
    assert plain.requests(view)[0].key != score.requests(view)[0].key
    assert {each.settings for each in plain.embedding_specs()}.isdisjoint(
        each.settings for each in score.embedding_specs()
    )
    assert set(score.versions()) >= {"transformers", "tokenizers"}
    assert "transformers" in score.needs


def test_a_model_with_another_vocabulary_refuses_transformers_tokenizer(tmp_path):
    other = {**tiny_models.CLIP["text_cfg"], "tokenizer_kwargs": {"clean": "canonicalize"}}
    model = tiny_models.clip(tmp_path / "other", text_cfg=other)
    for score in (
        made("clip_similarity", model=model, pretrained="", processor="hf"),
        made("zero_shot", model=model, pretrained="", processor="hf", labels="a;b"),
    ):
        with pytest.raises(
            ValueError, match="processor='hf' is for models with the vocabulary of OpenAI's CLIP"
        ):
            score.models()[1].load("cpu")


# The scaled long side is 1, 3, 5, 7, 8 or 64 pixels longer than the crop of 32.
ODD = [(33, 32), (35, 32), (32, 37), (32, 39), (342, 427), (96, 32)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("size", ODD)
@pytest.mark.parametrize("flip", ["", "both"])
def test_images_of_any_size_are_cropped_as_transformers_processor_does(folders, size, flip):
    ours, theirs = folders
    image = photo(size[0], size[1], seed=sum(size))
    turned = image.transpose(Image.Transpose.ROTATE_180) if flip else image
    score = made(
        "clip_similarity", model=ours, pretrained="", processor="hf", decode="exact", flip=flip
    )
    found = compute(score, {"png": encoded(image, "PNG"), "txt": b"a red cat"})
    assert found == pytest.approx(by_transformers(theirs, turned, "a red cat"), abs=2e-5)


@pytest.mark.deep
def test_random_sizes_are_cropped_as_transformers_processor_does(folders):
    ours, theirs = folders
    chance = random.Random(0)
    score = made("clip_similarity", model=ours, pretrained="", processor="hf", decode="exact")
    for seed in range(60):
        image = photo(chance.randrange(20, 200), chance.randrange(20, 200), seed=seed)
        found = compute(score, {"png": encoded(image, "PNG"), "txt": b"a red cat"})
        assert found == pytest.approx(by_transformers(theirs, image, "a red cat"), abs=2e-5), (
            image.size
        )


@pytest.mark.parametrize("size", [(64, 48), (48, 90), (101, 33), (32, 200)])
def test_pictures_are_those_of_transformers_processor_but_for_rounding(size):
    processor = CLIPImageProcessor(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        do_normalize=False,
        do_rescale=False,
    )
    data = encoded(smooth(*size), "PNG")
    found = Prepare(geometry=Geometry(size=(32, 32), fit="short", rounds_down=True))(data, 1 << 30)
    expected = processor(images=Image.open(io.BytesIO(data)), return_tensors="np")["pixel_values"][
        0
    ]
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert found.std() > 10
