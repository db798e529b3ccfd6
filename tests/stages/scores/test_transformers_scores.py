import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.one_score import compute

from tests.pictures import encoded, photo, smooth
from tests.stages.scores.fields import made
from wdsflow.models.loaded import LoadedModels, ModelError
from wdsflow.stages.scores import ScoreError, View

pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

import torch
import transformers

from tests.stages.scores import tiny_models
from wdsflow.stages.scores.model.pictures.prepare import Prepare
from wdsflow.stages.scores.model.transformer.captions import text_facts, token_ids
from wdsflow.stages.scores.model.transformer.loading import load_model, pretrained, tokenizer_of
from wdsflow.stages.scores.model.transformer.processor import PrepareByProcessor, preparation

SLIGHT = 2e-5
TEXTS = [
    "a",
    "a photo of the red cat is very blue",
    "two dogs on the cat ! . ! .",
    "not red",
    "a cat " * 20,
]
IMAGES = [encoded(photo(64, 48, seed), "PNG") for seed in range(3)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of models by name."""
    root = tmp_path_factory.mktemp("models")
    return {
        "image": tiny_models.image_classifier(root / "image"),
        "several": tiny_models.image_classifier(
            root / "several", ("a", "b", "c"), problem_type="multi_label_classification"
        ),
        "rating": tiny_models.image_classifier(root / "rating", ("quality",)),
        "bert": tiny_models.text_classifier(root / "bert"),
        "gpt2": tiny_models.text_classifier(root / "gpt2", "gpt2"),
        "language": tiny_models.language_model(root / "language"),
        "match": tiny_models.matcher(root / "match"),
    }


def scores(folders):
    return {
        "classify": made("classify", model=folders["image"], label="nsfw"),
        "text_classify, bert": made("text_classify", model=folders["bert"], label="good"),
        "text_classify, gpt2": made("text_classify", model=folders["gpt2"], label="1"),
        "caption_perplexity": made("caption_perplexity", model=folders["language"]),
        "image_text_match": made("image_text_match", model=folders["match"]),
    }


def by_library(kind, folder, **inputs):
    """Return what a model makes of inputs, called as its documentation has it."""
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**inputs)


def picture(folder, data, image=None):
    import io

    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return processor(images=image or Image.open(io.BytesIO(data)), return_tensors="pt")[
        "pixel_values"
    ]


@pytest.mark.deep
def test_classify_is_the_softmax_over_the_labels(folders):
    for data in IMAGES:
        logits = by_library(
            "ViTForImageClassification",
            folders["image"],
            pixel_values=picture(folders["image"], data),
        ).logits
        expected = logits.softmax(-1)[0].tolist()
        for label, place in (("NSFW", 1), ("nsfw", 1), ("1", 1), ("normal", 0), ("0", 0)):
            found = compute(made("classify", model=folders["image"], label=label), {"png": data})
            assert found == pytest.approx(expected[place], abs=SLIGHT)


def test_a_model_of_several_labels_at_once_and_one_of_a_number(folders):
    pixels = picture(folders["several"], IMAGES[0])
    logits = by_library("ViTForImageClassification", folders["several"], pixel_values=pixels).logits
    found = compute(made("classify", model=folders["several"], label="c"), {"png": IMAGES[0]})
    assert found == pytest.approx(float(logits.sigmoid()[0, 2]), abs=SLIGHT)
    logits = by_library("ViTForImageClassification", folders["rating"], pixel_values=pixels).logits
    found = compute(made("classify", model=folders["rating"]), {"png": IMAGES[0]})
    assert found == pytest.approx(float(logits[0, 0]), abs=SLIGHT)


@pytest.mark.parametrize(("name", "model"), [("classify", "image"), ("text_classify", "bert")])
@pytest.mark.parametrize("label", ["zzz", "7", "-1", ""])
def test_a_label_that_there_is_not_is_answered_with_those_there_are(folders, name, model, label):
    with pytest.raises(
        ValueError, match=r"has no label '.*'; it has '(normal', 'NSFW'|bad', 'good', 'odd')"
    ):
        compute(made(name, model=folders[model], label=label), {"png": IMAGES[0], "txt": b"a"})


def test_presets_stand_for_models_in_the_hub_and_know_their_label():
    for preset, model in (
        ("nsfw", "Falconsai/nsfw_image_detection"),
        ("watermark", "amrul-hzz/watermark_detector"),
    ):
        score = made("classify", model=preset)
        assert score.models()[0].model == model
        assert score.identity() == made("classify", model=model, label="1").identity()
    assert made("classify").models()[0].model == "Falconsai/nsfw_image_detection"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("model", "kind"),
    [("bert", "BertForSequenceClassification"), ("gpt2", "GPT2ForSequenceClassification")],
)
def test_text_classify_is_the_softmax_over_the_labels(folders, model, kind):
    for text in TEXTS[:4]:
        inputs = transformers.AutoTokenizer.from_pretrained(folders[model])(
            text, return_tensors="pt"
        )
        inputs.pop("token_type_ids", None)
        expected = by_library(kind, folders[model], **inputs).logits.softmax(-1)[0, 1]
        found = compute(
            made("text_classify", model=folders[model], label="1"), {"txt": text.encode()}
        )
        assert found == pytest.approx(float(expected), abs=SLIGHT)


def test_perplexity_is_what_the_librarys_own_loss_says(folders):
    tokenizer = tokenizer_of(folders["language"])
    for text in TEXTS[:4]:
        ids = torch.tensor(
            [[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]]
        )
        expected = math.exp(
            by_library("GPT2LMHeadModel", folders["language"], input_ids=ids, labels=ids).loss
        )
        found = compute(
            made("caption_perplexity", model=folders["language"]), {"txt": text.encode()}
        )
        assert found == pytest.approx(expected, rel=1e-4)


def test_captions_without_a_word_have_no_perplexity(folders):
    for text in (b"", b" \n"):
        with pytest.raises(ScoreError, match="empty-caption"):
            compute(made("caption_perplexity", model=folders["language"]), {"txt": text})


def test_image_text_match_is_what_blip_and_its_processor_say(folders):
    import io

    processor = transformers.BlipProcessor.from_pretrained(folders["match"])
    fields = {f"{place}.png": data for place, data in enumerate(IMAGES)}
    fields["json"] = json.dumps({"texts": TEXTS[:3]}).encode()
    table = []
    for text in TEXTS[:3]:
        inputs = [
            processor(images=Image.open(io.BytesIO(data)), text=text, return_tensors="pt")
            for data in IMAGES
        ]
        itm = [
            by_library("BlipForImageTextRetrieval", folders["match"], **each).itm_score
            for each in inputs
        ]
        table.append([float(each.softmax(-1)[0, 1]) for each in itm])
    for reduce, function in (("mean", np.mean), ("max", np.max), ("min", np.min)):
        score = made(
            "image_text_match", model=folders["match"], caption="json:texts", reduce=reduce
        )
        assert compute(score, fields) == pytest.approx(list(function(table, axis=1)), abs=1e-3)


def test_long_captions_are_cut_at_the_context_of_blips_text_model(folders, tmp_path):
    import io

    folder = shutil.copytree(folders["match"], tmp_path / "blip")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 512}))
    text = "a red cat on the blue mat " * 40
    processor = transformers.BlipProcessor.from_pretrained(folder)
    context = transformers.AutoConfig.from_pretrained(folder).text_config.max_position_embeddings
    assert context < len(processor.tokenizer(text)["input_ids"]) < 512
    # As Data-Juicer's image_text_matching_filter does.
    images = Image.open(io.BytesIO(IMAGES[0]))
    inputs = processor(
        images=images, text=text, return_tensors="pt", truncation=True, max_length=context
    )
    expected = by_library("BlipForImageTextRetrieval", str(folder), **inputs).itm_score.softmax(-1)[
        0, 1
    ]
    found = compute(
        made("image_text_match", model=str(folder)), {"png": IMAGES[0], "txt": text.encode()}
    )
    assert found == pytest.approx(float(expected), abs=1e-3)


def test_a_picture_is_decoded_once_for_several_captions(folders):
    score = made("image_text_match", model=folders["match"])
    view = View({"png": IMAGES[0], "0.txt": b"a cat", "1.txt": b"a dog"})
    first, second = (request.make() for request in score.requests(view))
    assert first[0] is second[0]
    assert view.bytes_read == len(IMAGES[0]) + 10


def test_flips_mirror_the_image(folders):
    image = photo(32, 32)
    turned = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    found = [
        compute(
            made("image_text_match", model=folders["match"], flip=flip),
            {"png": encoded(each, "PNG"), "txt": b"a cat"},
        )
        for each, flip in ((image, "horizontal"), (turned, ""), (image, ""))
    ]
    assert found[0] == pytest.approx(found[1], abs=SLIGHT)
    assert found[0] != pytest.approx(found[2], abs=1e-4)


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [
        "classify",
        "text_classify, bert",
        "text_classify, gpt2",
        "caption_perplexity",
        "image_text_match",
    ],
)
def test_an_output_does_not_depend_on_its_neighbours(folders, name):
    score = scores(folders)[name]
    views = [
        View({"png": IMAGES[place % 3], "txt": text.encode()})
        for place, text in enumerate(TEXTS * 3)
    ]
    requests = [request for view in views for request in score.requests(view)]
    (model,) = score.models()
    loaded, items = model.load("cpu"), [request.make() for request in requests]
    with torch.inference_mode():
        alone = np.array([model.run(loaded, [item])[0] for item in items])
        together = np.array(model.run(loaded, items))
        backwards = np.array(model.run(loaded, items[::-1])[::-1])
    if name != "classify":
        assert max(map(model.cost, items)) > min(map(model.cost, items))
    assert len({str(each) for each in alone}) >= 3
    assert alone == pytest.approx(together, abs=2e-5)
    assert alone == pytest.approx(backwards, abs=2e-5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_gives_nearly_the_same(folders, precision):
    fields = {"png": IMAGES[0], "txt": b"a red cat"}
    for name, settings in (
        ("classify", {"model": folders["image"], "label": "1"}),
        ("image_text_match", {"model": folders["match"]}),
    ):
        exact = compute(made(name, **settings), fields)
        assert compute(made(name, precision=precision, **settings), fields) == pytest.approx(
            exact, abs=0.05
        )


def test_the_largest_items_are_what_the_models_take(folders):
    for score in scores(folders).values():
        (model,) = score.models()
        item = model.largest()
        view = View({"png": IMAGES[0], "txt": b"a cat " * 500})
        with torch.inference_mode():
            assert len(model.run(model.load("cpu"), [item])) == 1
        assert model.cost(item) >= max(
            model.cost(request.make()) for request in score.requests(view)
        )


def test_texts_are_cut_where_asked_and_where_the_model_ends(folders):
    for most in (1, 2, 3, 10):
        assert len(token_ids(folders["bert"], "a " * 100, most)) == most
    long = (
        made("text_classify", model=folders["bert"], label="0")
        .requests(View({"txt": b"a " * 500}))[0]
        .make()
    )
    assert len(long) == 48
    short = (
        made("caption_perplexity", model=folders["language"], max_tokens=5)
        .requests(View({"txt": b"a " * 500}))[0]
        .make()
    )
    assert len(short) == 5


def test_a_file_of_tokens_is_read_without_transformers_only_where_both_agree(folders, tmp_path):
    assert text_facts(folders["bert"]).file == str(Path(folders["bert"], "tokenizer.json"))
    other = shutil.copytree(folders["bert"], tmp_path / "other")
    settings = json.loads((other / "tokenizer_config.json").read_text())
    settings["additional_special_tokens"] = ["<photo>"]
    (other / "tokenizer_config.json").write_text(json.dumps(settings))
    # Transformers adds this token, and the file does not know it.
    assert text_facts(str(other)).file == ""


def test_a_model_that_lacks_weights_is_refused(folders):
    with pytest.raises(ValueError, match=r"lacks the weights"):
        made("text_classify", model=folders["language"], label="0").models()[0].load("cpu")


def test_a_model_that_cannot_be_loaded_is_named_with_its_folder(tmp_path: Path) -> None:
    models = made("caption_perplexity", model=str(tmp_path)).models()

    with pytest.raises(
        ModelError, match=f"^transformers language model, '{tmp_path}' cannot be loaded: "
    ):
        LoadedModels("cpu").prepare(models)


def test_a_processor_that_does_more_than_squeeze_is_asked_itself(tmp_path):
    folder = tiny_models.image_classifier(tmp_path / "crops")
    processors = {
        "squeezes": transformers.ViTImageProcessor(size={"height": 32, "width": 32}),
        "bicubic": transformers.ViTImageProcessor(
            size={"height": 32, "width": 32}, resample=3, do_normalize=False
        ),
        "crops": transformers.CLIPImageProcessor(
            size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}
        ),
        "lanczos": transformers.ViTImageProcessor(size={"height": 32, "width": 32}, resample=1),
        "convnext": transformers.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.8),
    }
    data = encoded(smooth(90, 61), "PNG")
    for name, processor in processors.items():
        processor.save_pretrained(folder)
        preparation.cache_clear()
        pretrained.cache_clear()
        made_by = preparation(folder)
        assert isinstance(
            made_by, Prepare if name in {"squeezes", "bicubic"} else PrepareByProcessor
        ), name
        score = made("classify", model=folder, label="1")
        logits = by_library(
            "ViTForImageClassification", folder, pixel_values=picture(folder, data)
        ).logits
        assert compute(score, {"png": data}) == pytest.approx(
            float(logits.softmax(-1)[0, 1]), abs=2e-3
        ), name


def test_a_folder_is_known_by_its_contents(folders, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folders["bert"], copy)
    first = made("text_classify", model=folders["bert"], label="0").identity()
    assert made("text_classify", model=str(copy), label="0").identity() == first
    (copy / "optimizer.pt").write_bytes(b"x")
    (copy / "README.md").write_bytes(b"x")
    assert made("text_classify", model=str(copy), label="0").identity() == first
    (copy / "config.json").write_bytes((copy / "config.json").read_bytes() + b"\n")
    assert made("text_classify", model=str(copy), label="0").identity() != first
    with pytest.raises(ValueError, match="no such file or folder"):
        made("text_classify", model="/nowhere/x", label="0").identity()


@pytest.mark.deep
@pytest.mark.parametrize("bars", [True, False])
def test_a_model_is_loaded_ready_to_run_without_bars_of_its_library(folders, tmp_path, capfd, bars):
    logs = transformers.utils.logging
    before = logs.is_progress_bar_enabled()
    try:
        (logs.enable_progress_bar if bars else logs.disable_progress_bar)()
        model = load_model("AutoModelForImageClassification", folders["image"], "bf16", "cpu")
        assert logs.is_progress_bar_enabled() == bars
        assert (model.training, model.dtype) == (False, torch.bfloat16)
        with pytest.raises((OSError, ValueError)):
            load_model("AutoModelForImageClassification", str(tmp_path), "fp32", "cpu")
        assert logs.is_progress_bar_enabled() == bars
    finally:
        (logs.enable_progress_bar if before else logs.disable_progress_bar)()
    assert "it/s" not in capfd.readouterr().err
