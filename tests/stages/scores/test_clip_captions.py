import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

import open_clip
import torch

from tests.stages.scores import tiny_models
from wdsflow.stages.scores.model.clip.clip_tokens import clip_item, stack_tokens, token_context
from wdsflow.stages.scores.model.clip.clip_words import clip_words
from wdsflow.stages.scores.model.clip.load_clip import load_clip
from wdsflow.stages.scores.model.clip.towers import ClipText

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PIECES = ["a photo of", "<start_of_text>", "<END_OF_TEXT>", "'S I'd", "&amp;lt;", "\u00a0\u200b", "İ ß ǅ", "Ⅷ²12", "日本", "ไทย", "👨‍👩‍👧", "â€™", "!!,-", "\x00"]  # fmt: skip


@pytest.fixture(scope="module")
def theirs():
    return open_clip.get_tokenizer("ViT-B-32")


@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=30),
    st.sampled_from(["", " "]),
)
def test_captions_are_tokenised_as_openclip_does(theirs, parts, between):
    text = between.join(parts)
    expected = theirs([text])[0].tolist()
    found = clip_words().tokens(text, 77)
    assert found + [0] * (77 - len(found)) == expected


def test_only_tokenisers_that_are_known_are_taken_over(tmp_path):
    assert token_context(tiny_models.clip(tmp_path / "plain")) == 12
    other = {**tiny_models.CLIP["text_cfg"], "tokenizer_kwargs": {"clean": "canonicalize"}}
    model = tiny_models.clip(tmp_path / "other", text_cfg=other)
    assert token_context(model) is None
    assert clip_item(model, "A Cat!") == "A Cat!"


def padded(item, context=12):
    return torch.from_numpy(np.pad(item, (0, context - len(item)))[None]).long()


@pytest.mark.parametrize(
    ("changes", "trims"),
    [({}, True), ({"custom_text": True}, False), ({"no_causal_mask": True}, False)],
)
def test_padding_is_left_out_only_where_it_decides_nothing(tmp_path, changes, trims):
    own = {name: value for name, value in changes.items() if name == "custom_text"}
    text = {
        **tiny_models.CLIP["text_cfg"],
        **{name: each for name, each in changes.items() if name not in own},
    }
    clip = load_clip(tiny_models.clip(tmp_path / "clip", text_cfg=text, **own), "", "fp32", "cpu")
    assert clip.text.trims is trims
    items = [np.array([49406, 320, 2368, 49407], np.int32), np.array([49406, 5, 49407], np.int32)]
    with torch.inference_mode():
        found = clip.texts(stack_tokens("", items))
        alone = np.concatenate(
            [clip._normalised(clip.model.encode_text(padded(item))) for item in items]
        )
    assert found == pytest.approx(alone, abs=1e-5)


def test_a_batch_of_captions_costs_its_tokens_where_padding_is_left_out(tmp_path):
    model = ClipText(model=tiny_models.clip(tmp_path / "clip"), pretrained="")
    item = clip_item(model.model, "two cats")
    assert model.cost(item) == 1  # not loaded: nobody knows
    loaded = model.load("cpu")
    assert model.cost(item) == len(item) == 4
    assert loaded.text.trims
    assert len(model.largest()) == 12
