import io
import itertools
import json
import threading

import numpy as np
import pytest
from PIL import Image
from support.one_score import compute

from tests.pictures import encoded, photo, smooth
from tests.stages.scores.fields import made
from wdsflow.stages.scores import ScoreError, View
from wdsflow.stages.scores.model.clip.clip_score import embedding_key

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

import open_clip
import torch

from tests.stages.scores import tiny_models
from wdsflow.stages.scores.model.clip.clip_config import clip_geometry
from wdsflow.stages.scores.model.clip.load_clip import loaded_clips

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SLIGHT = 2e-5  # what batches may change; also the last digit of a rounded value
PNG = [encoded(photo(64, 48, seed), "PNG") for seed in range(3)]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A folder with a CLIP."""
    return tiny_models.clip(tmp_path_factory.mktemp("clip") / "a")


@pytest.fixture(scope="module")
def bare(clip):
    """The same by OpenCLIP itself: embeddings of images, of texts."""
    net, _, preprocess = open_clip.create_model_and_transforms(clip)
    tokenizer = open_clip.get_tokenizer(clip)
    net.eval()

    class Bare:
        @torch.inference_mode()
        def images(self, *images):
            pixels = torch.stack([preprocess(Image.open(io.BytesIO(each))) for each in images])
            return net.encode_image(pixels, normalize=True).numpy()

        @torch.inference_mode()
        def texts(self, *texts):
            return net.encode_text(tokenizer(list(texts)), normalize=True).numpy()

    return Bare()


def similarity(clip, **settings):
    return made("clip_similarity", model=clip, pretrained="", **settings)


def test_similarity_is_the_cosine_that_openclip_itself_finds(clip, bare):
    for image in (*PNG, encoded(smooth(120, 90), "JPEG")):
        for text in ("a red cat", "two dogs.", "", "a " * 30):
            expected = float(bare.images(image)[0] @ bare.texts(text)[0])
            assert compute(similarity(clip), {"jpg": image, "txt": text.encode()}) == pytest.approx(
                expected, abs=0.005
            )


@pytest.mark.deep
def test_on_pictures_that_need_no_resizing_it_is_equal_but_for_rounding(clip, bare):
    image = encoded(photo(32, 32), "PNG")
    expected = float(bare.images(image)[0] @ bare.texts("a cat")[0])
    assert compute(similarity(clip), {"png": image, "txt": b"a cat"}) == pytest.approx(
        expected, abs=SLIGHT
    )


def test_several_captions_give_several_values_and_several_images_are_reduced(clip, bare):
    fields = {f"{place}.png": data for place, data in enumerate(PNG)}
    fields["json"] = json.dumps({"texts": ["a cat", "two dogs", "red"]}).encode()
    cosines = bare.texts("a cat", "two dogs", "red") @ bare.images(*PNG).T
    for reduce, function in (("mean", np.mean), ("max", np.max), ("min", np.min)):
        found = compute(similarity(clip, caption="json:texts", reduce=reduce), fields)
        assert found == pytest.approx(list(function(cosines, axis=1)), abs=0.005)


@pytest.mark.parametrize("flip", ["horizontal", "vertical", "both"])
def test_flips_mirror_the_image_before_the_model_sees_it(clip, flip):
    image = photo(32, 32)
    turned = np.asarray(image)[
        :: -1 if flip != "horizontal" else 1, :: -1 if flip != "vertical" else 1
    ]
    flipped = compute(similarity(clip, flip=flip), {"png": encoded(image, "PNG"), "txt": b"a cat"})
    by_hand = {"png": encoded(Image.fromarray(turned), "PNG"), "txt": b"a cat"}
    assert flipped == pytest.approx(compute(similarity(clip), by_hand), abs=SLIGHT)
    assert flipped != pytest.approx(
        compute(similarity(clip), {**by_hand, "png": encoded(image, "PNG")}), abs=1e-3
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-6), ("bf16", 0.01), ("fp16", 0.01)]
)
def test_an_embedding_does_not_depend_on_its_neighbours(clip, precision, tolerance):
    score = similarity(clip, precision=precision)
    texts = ["a", "the red cat on two dogs and a blue cat is not very red", "", "two dogs"] * 4
    views = [
        View({"png": PNG[place % 3], "txt": text.encode()}) for place, text in enumerate(texts)
    ]
    requests = [request for view in views for request in score.requests(view)]
    models = score.models()
    assert len(models) == 2
    for model in models:
        loaded = model.load("cpu")
        items = [request.make() for request in requests if request.model == model]
        with torch.inference_mode():
            alone = np.stack([model.run(loaded, [item])[0] for item in items])
            together = np.stack(model.run(loaded, items))
            backwards = np.stack(model.run(loaded, items[::-1])[::-1])
        assert alone.dtype == np.float32
        assert np.linalg.norm(alone, axis=1) == pytest.approx(1, abs=1e-5)
        assert np.abs(alone - together).max() < tolerance
        assert np.abs(alone - backwards).max() < tolerance


def loaded(model):
    return [key for key in list(loaded_clips) if key[0] == model]


def test_both_towers_share_one_loaded_model_that_goes_with_its_last_holder(clip):
    image, text = similarity(clip).models()
    held = image.load("cpu")
    assert text.load("cpu") is held
    other = made("zero_shot", model=clip, pretrained="", labels="a;b")
    assert other.models()[0] == image
    labels = other.models()[1].load("cpu")
    assert labels[0] is held
    half = (
        made("clip_similarity", model=clip, pretrained="", precision="bf16").models()[0].load("cpu")
    )
    assert half is not held
    del held, half
    assert len(loaded(clip)) == 1
    del labels
    assert loaded(clip) == []


def test_two_threads_that_load_the_same_get_one(clip):
    found = []
    models = similarity(clip).models()
    threads = [
        threading.Thread(target=lambda model=model: found.append(model.load("cpu")))
        for model in models * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_zero_shot_is_the_softmax_of_a_hundred_times_the_cosine(clip, bare):
    labels = ["a photo of a cat", "a drawing", "two dogs"]
    logits = 100 * bare.images(PNG[0]) @ bare.texts(*labels).T
    expected = np.exp(logits[0] - logits.max())
    fields = {"png": PNG[0]}
    values = []
    for turn in range(3):
        score = made(
            "zero_shot", model=clip, pretrained="", labels=" ; ".join(labels[turn:] + labels[:turn])
        )
        values.append(compute(score, fields))
    assert values == pytest.approx(list(expected / expected.sum()), abs=0.05)
    assert sum(values) == pytest.approx(1, abs=1e-5)


def test_labels_are_computed_once_and_all_samples_get_them(clip):
    score = made("zero_shot", model=clip, pretrained="", labels="a cat;a dog")
    model = score.models()[1]
    loaded = model.load("cpu")
    outputs = model.run(loaded, [None, None])
    assert outputs[0] is outputs[1]
    assert outputs[0].shape == (2, 16)


def heads():
    draw = np.random.default_rng(3)
    widths = [16, 8, 8, 4, 4, 1]
    matrices = [
        torch.tensor(draw.normal(size=(b, a)), dtype=torch.float32)
        for a, b in itertools.pairwise(widths)
    ]
    biases = [torch.tensor(draw.normal(size=b), dtype=torch.float32) for b in widths[1:]]

    def several(places):
        return {
            f"layers.{place}.{part}": tensor
            for place, weight, bias in zip(places, matrices, biases, strict=True)
            for part, tensor in (("weight", weight), ("bias", bias))
        }

    def through(embedding, between):
        values = embedding.astype(np.float64)
        for weight, bias in zip(matrices[:-1], biases[:-1], strict=True):
            values = between(weight.double().numpy() @ values + bias.double().numpy())
        return float((matrices[-1].double().numpy() @ values)[0] + biases[-1].item())

    one = {"weight": torch.ones(1, 16), "bias": torch.tensor([5.0])}
    return [
        ("linear", one, lambda embedding: embedding.sum() + 5),
        (
            "laion",
            several((0, 2, 4, 6, 7)),
            lambda embedding: through(embedding, lambda values: values),
        ),
        (
            "relu",
            several((0, 3, 6, 9, 11)),
            lambda embedding: through(embedding, lambda values: np.maximum(values, 0)),
        ),
    ]


@pytest.mark.parametrize("kind", ["torch", "safetensors"])
@pytest.mark.parametrize(
    ("state", "expected"), [head[1:] for head in heads()], ids=[head[0] for head in heads()]
)
def test_aesthetic_is_the_head_on_the_embedding(clip, bare, tmp_path, kind, state, expected):
    from safetensors.torch import save_file

    path = tmp_path / ("head.safetensors" if kind == "safetensors" else "head.pth")
    save_file(state, path) if kind == "safetensors" else torch.save(state, path)
    image = encoded(photo(32, 32), "PNG")
    found = compute(made("aesthetic", model=clip, pretrained="", head=str(path)), {"png": image})
    assert found == pytest.approx(float(expected(bare.images(image)[0])), abs=2e-3)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"weight": torch.ones(1, 9)}, "for embeddings of 9 values, these have 16"),
        ({"weight": torch.ones(2, 16)}, "gives 2 numbers"),
        (
            {"a.0.weight": torch.ones(4, 16), "a.1.weight": torch.ones(1, 4)},
            "neither a linear head nor LAION's",
        ),
        ({"weight": torch.ones(1, 16), "scale": torch.ones(1)}, "it has scale, weight"),
        ({}, "neither a linear head"),
    ],
)
def test_a_head_that_is_none_is_refused(clip, tmp_path, state, message):
    torch.save(state, tmp_path / "head.pth")
    with pytest.raises(ValueError, match=message):
        compute(
            made("aesthetic", model=clip, pretrained="", head=str(tmp_path / "head.pth")),
            {"png": PNG[0]},
        )


def test_a_head_is_never_unpickled(clip, tmp_path):
    torch.save({"weight": threading.Thread}, tmp_path / "head.pth")
    with pytest.raises(Exception, match=r"(?i)weights.only"):
        compute(
            made("aesthetic", model=clip, pretrained="", head=str(tmp_path / "head.pth")),
            {"png": PNG[0]},
        )


def test_embeddings_are_known_by_field_flip_and_caption(clip):
    view = View({"png": PNG[0], "0.txt": b"a cat", "1.txt": b"two dogs"})
    keys = [embedding_key(request) for request in similarity(clip, flip="both").requests(view)]
    assert keys[0] == "png/both"
    assert len(set(keys)) == 3
    other = View({"png": PNG[1], "txt": b"two dogs"})
    assert [embedding_key(request) for request in similarity(clip).requests(other)] == [
        "png",
        keys[2],
    ]


def test_a_score_tells_which_embeddings_it_asks_for(clip):
    image, caption = similarity(
        clip, flip="both", caption="txt", precision="bf16"
    ).embedding_specs()
    assert (image.kind, caption.kind) == ("image", "caption")
    own = {"model": clip, "pretrained": "", "precision": "bf16"}
    assert dict(image.settings) == {**own, "flip": "both"}
    assert dict(caption.settings) == {**own, "caption": "txt"}
    assert image.model.size() == 16
    (only,) = made("zero_shot", model=clip, pretrained="", labels="a;b").embedding_specs()
    assert only == similarity(clip).embedding_specs()[0]


def test_weights_may_lie_in_a_checkpoint_of_a_training(clip, tmp_path, caplog):
    bare_folder = tiny_models.clip(tmp_path / "bare", weights="")
    net = open_clip.create_model(clip)
    state = {f"module.{name}": value for name, value in net.state_dict().items()}
    optimizer = torch.optim.AdamW(net.parameters()).state_dict()
    torch.save(
        {"epoch": 1, "name": "x", "state_dict": state, "optimizer": optimizer},
        tmp_path / "epoch_1.pt",
    )
    trained = made("clip_similarity", model=bare_folder, pretrained=str(tmp_path / "epoch_1.pt"))
    fields = {"png": PNG[0], "txt": b"a cat"}
    caplog.clear()
    assert compute(trained, fields) == compute(similarity(clip), fields)
    assert caplog.messages == []


def test_settings_of_the_preprocessing_are_the_folders_own(tmp_path):
    preprocess = {
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "interpolation": "bilinear",
        "resize_mode": "squash",
    }
    folder = tiny_models.clip(tmp_path / "a", preprocess=preprocess)
    net, _, transform = open_clip.create_model_and_transforms(folder)
    net.eval()
    data = encoded(smooth(80, 50), "PNG")
    with torch.inference_mode():
        image = net.encode_image(transform(Image.open(io.BytesIO(data)))[None], normalize=True)
        text = net.encode_text(open_clip.get_tokenizer(folder)(["a"]), normalize=True)
    found = compute(similarity(folder), {"png": data, "txt": b"a"})
    assert found == pytest.approx(float(image @ text.T), abs=0.005)


@pytest.mark.parametrize("tag", ["openai", "webli", "datacompdr", "laion2b_s34b_b79k"])
def test_the_geometry_of_a_known_model_is_told_without_its_weights(tag):
    names = {"webli": "ViT-B-16-SigLIP", "datacompdr": "MobileCLIP-S1"}
    found = clip_geometry(names.get(tag, "ViT-B-32"), tag)
    expected = {"webli": ("both", "bicubic", 224), "datacompdr": ("short", "bilinear", 256)}
    assert (found.fit, found.kernel, found.size[0]) == expected.get(tag, ("short", "bicubic", 224))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "ViT-B-32", "pretrained": ""}, "random weights"),
        ({"pretrained": "/nowhere/x.pt"}, "no such file"),
        ({"model": "hf-hub:a/b"}, "its own weights"),
        ({"model": "local-dir:/x", "pretrained": "openai"}, "is not a file"),
        ({"reduce": "avg"}, "is not one of"),
        ({"precision": "int8"}, "is not one of"),
        ({"flip": "left"}, "is not one of"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        made("clip_similarity", **settings)


def test_a_model_without_weights_is_refused_when_it_is_loaded(tmp_path):
    folder = tiny_models.clip(tmp_path / "a", weights="")
    with pytest.raises(RuntimeError, match="could not be loaded"):
        similarity(folder).models()[0].load("cpu")


def test_a_caption_that_would_take_minutes_is_an_error(clip):
    for text in ("a" * 501, "a " * 10_001):
        with pytest.raises(ScoreError, match="too-long"):
            compute(similarity(clip), {"png": PNG[0], "txt": text.encode()})


def test_the_largest_items_are_what_the_models_take(clip):
    models = similarity(clip).models()
    assert len(models) == 2
    for model in models:
        item = model.largest()
        loaded = model.load("cpu")
        with torch.inference_mode():
            assert len(model.run(loaded, [item, item])) == 2
        assert model.cost(item) == (32 * 32 if model.kind == "open_clip image" else 12)


def test_the_identity_is_that_of_the_weights_wherever_they_lie(clip, tmp_path):
    import shutil

    first = similarity(clip).identity()
    copy = tmp_path / "elsewhere"
    shutil.copytree(clip.removeprefix("local-dir:"), copy)
    assert similarity(f"local-dir:{copy}").identity() == first
    weights = next(copy.glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert similarity(f"local-dir:{copy}").identity() != first
    assert "elsewhere" not in json.dumps(similarity(f"local-dir:{copy}").identity())
    head = tmp_path / "head.pth"
    torch.save({"weight": torch.ones(1, 16)}, head)
    one = made("aesthetic", head=str(head)).identity()
    torch.save({"weight": torch.zeros(1, 16)}, head)
    assert made("aesthetic", head=str(head)).identity() != one
