"""Taggers with nearly untrained networks: a batch gives Stanza's own result for each caption."""

import random
from collections import Counter

import pytest

from tests.stages.scores.fields import made

pytest.importorskip("stanza", reason="Stanza is not installed")

import stanza
import torch

from tests.stages.scores import tiny_stanza
from wdsflow.stages.scores.model.tagging import stanza_tokenizer
from wdsflow.stages.scores.model.tagging.caption_sentences import is_word, paragraphs

CAPTIONS = [
    "",
    " \n ",
    "dog",
    "\n\nTwo here.\n \nAnna sees Berlin. ",
    "¿qué? 漢字 😀",
    "a\x97\nb",
    "word " * 60,
    "dog",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield str(tiny_stanza.layout(tmp_path_factory.mktemp("untrained") / "stanza", trained=False))
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def loaded(folder, kind, **settings):
    (model,) = made(kind, model=folder, **settings).models()
    return model, model.load("cpu")


def test_a_batch_says_of_each_caption_what_stanza_says_of_it_alone(folder):
    rng = random.Random(11)
    captions = CAPTIONS + [
        tiny_stanza.text_of([tiny_stanza.sentence(rng) for _ in range(3)]) for _ in range(4)
    ]
    pipeline = stanza.Pipeline(lang="en", dir=folder, processors="tokenize,pos,ner", download_method=None, use_gpu=False, verbose=False)  # fmt: skip
    found = {
        kind: (model := loaded(folder, kind))[0].run(model[1], captions)
        for kind in ("pos", "entities")
    }
    for text, pos, entities in zip(captions, found["pos"], found["entities"], strict=True):
        document = pipeline(text.strip())
        words = [word for sentence in document.sentences for word in sentence.words]
        assert pos.words == entities.words == len(words), text
        assert pos.tags.get("upos", {}) == Counter(word.upos for word in words)
        assert pos.tags.get("xpos", {}) == Counter(word.xpos for word in words)
        assert entities.tags.get("entity", {}) == Counter(entity.type for entity in document.ents)


def test_networks_are_loaded_once_and_captions_tokenised_once_for_both_taggers(folder):
    (pos, first), (_, again), (entities, second) = (
        loaded(folder, kind) for kind in ("pos", "pos", "entities")
    )
    assert first.pipeline is again.pipeline
    pipeline = first.tokenizer._pipeline
    assert second.tokenizer._pipeline is pipeline
    some = ["Anna walks to Paris.", "A cat of Carl. It runs.", "Anna walks to Paris."]
    asked, whole = [], pipeline.bulk_process

    def noting(texts):
        asked.extend(texts)
        return whole(texts)

    pipeline.bulk_process = noting
    try:
        pos.run(first, some)
        assert sorted(asked) == sorted(some[:2])
        entities.run(second, some)
        assert len(asked) == 2
        tokens = first.tokenizer.sentences(["One two. " + "x" * 1001 + " three", "a\n\nb"], "words")
        assert sorted(asked[2:]) == ["One two.", "a", "b", "three"]
        assert ["x" * 1001] in tokens[0]
        assert [word for sentence in tokens[1] for word in sentence] == ["a", "b"]
        assert first.tokenizer.sentences(["a\n\nb"], "tokens") == [tokens[1]]
    finally:
        pipeline.bulk_process = whole


def test_a_caption_of_words_between_spaces_is_not_tokenised(folder):
    file = f"{folder}/en/pos/tiny.pt"
    model, networks = loaded(file, "pos", pretokenized=True)
    assert networks.tokenizer is None
    assert [
        each.words for each in model.run(networks, ["The dog.sees !", "a\n\nb c", "", " "])
    ] == [3, 3, 0, 0]


@pytest.mark.parametrize("kind", ["pos", "entities"])
def test_the_largest_caption_fills_a_batch_of_words(folder: str, kind: str) -> None:
    model, networks = loaded(folder, kind, pretokenized=True)
    largest = model.largest()

    (counts,) = model.run(networks, [largest])

    assert counts.words == model.budget.words
    assert model.cost(largest) > max(model.cost(caption) for caption in CAPTIONS)


def test_a_tagger_upon_a_transformer_that_is_not_here_is_refused_with_its_name(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tagger = torch.load(f"{folder}/en/pos/tiny.pt", weights_only=True)
    tagger["config"]["bert_model"] = "nobody/has-this"
    torch.save(tagger, tmp_path / "tagger.pt")
    with pytest.raises(
        ValueError, match="the transformer 'nobody/has-this' is not in the hub's folder"
    ):
        loaded(str(tmp_path / "tagger.pt"), "pos", pretokenized=True)
    (tmp_path / "a;b.pt").write_bytes((tmp_path / "tagger.pt").read_bytes())
    with pytest.raises(ValueError, match=r"a;b.pt' for several files: no name may have a ';'"):
        loaded(str(tmp_path / "a;b.pt"), "pos", pretokenized=True)


def test_what_is_remembered_of_captions_is_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(stanza_tokenizer, "CACHED_CHARACTERS", 8)
    remembered = stanza_tokenizer.SentenceCache()
    for text in ("aaaa", "bbbb", "aaaa"):
        remembered.add(text, [])
    assert list(remembered.of(["bbbb", "aaaa", "cccc"])) == ["bbbb", "aaaa"]
    remembered.add("c", [])
    assert list(remembered.of(["aaaa", "bbbb", "c"])) == ["bbbb", "c"]
    remembered.add("d" * 9, [])
    assert not remembered._sentences
    remembered.add("e" * 8, [])
    assert list(remembered._sentences) == ["e" * 8]


def test_an_endless_word_is_a_paragraph_of_its_own():
    long, word = "x" * 1001, "y" * 1000
    assert paragraphs(f" a {long} b \n\n{word}\n") == ["a", long, "b", word]
    assert [is_word(each) for each in (long, word, f"{long} ", f"{long}é")] == [
        True,
        False,
        False,
        False,
    ]
