import contextlib
import random
import socket
from collections import Counter

import pytest
from support.one_score import compute

from tests.stages.scores.fields import made
from wdsflow.memory.batching.runner import BatchRunner
from wdsflow.stages.scores import ScoreError
from wdsflow.stages.scores.model.tagging import stanza_tokenizer

pytest.importorskip("stanza", reason="Stanza is not installed")

import stanza
import torch
from filelock import FileLock

from tests.stages.scores import tiny_stanza

pytestmark = pytest.mark.deep  # the toy models are trained first

KINDS = ("pos", "entities")
NAMES = {"pos": "upos xpos", "entities": "entity"}
TEXT = "The red dog sees Anna. Carl Diana likes a cat in Berlin!"


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Run torch on one thread.

    With several threads, small networks mostly wait, especially next to other tests.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def inference():
    """Use inference mode, as the runner does when it calls models.

    Models may share tensors with other tests, and the two kinds of tensors cannot be mixed.
    """
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder of toy models: trained once, by whichever process comes first."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if base.name.startswith("popen-") else base) / "tiny-stanza"
    with FileLock(f"{root}.lock"):
        if not (root / "resources.json").exists():  # it is written last
            tiny_stanza.layout(root)
    return str(root)


@pytest.fixture(scope="session")
def pipeline(folder):
    return stanza.Pipeline(
        lang="en",
        dir=folder,
        processors="tokenize,pos,ner",
        download_method=None,
        use_gpu=False,
        verbose=False,
    )


@pytest.fixture(scope="session")
def captions():
    rng = random.Random(11)
    made = [
        tiny_stanza.text_of([tiny_stanza.sentence(rng) for _ in range(rng.choice((1, 1, 2, 5)))])
        for _ in range(60)
    ]
    made += [
        "",
        " \n ",
        "dog",
        "\n\nTwo here.\n \nAnna sees Berlin. ",
        "no stop",
        "¿qué? 漢字 😀",
        "a\x97\nb",
        "word " * 300,
    ]
    made += [
        "http://example.com/" + "a" * 60,
        "x" * 5_000,
        "a.b.c. " * 40,
        "<UNK> <PAD> the dog",
        "\ud800 dog",
    ]
    return made


def loaded(folder, kind, **settings):
    (model,) = made(kind, model=folder, **settings).models()
    return model, model.load("cpu")


def by_stanza(pipeline, text):
    """Return what Stanza's own pipeline says of a caption alone."""
    document = pipeline(text.strip())
    words = [word for sentence in document.sentences for word in sentence.words]
    tags = {
        "upos": Counter(word.upos for word in words),
        "xpos": Counter(word.xpos for word in words),
        "entity": Counter(entity.type for entity in document.ents),
    }
    return len(words), tags


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_says_of_each_caption_what_stanza_says_of_it_alone(
    folder, pipeline, captions, kind
):
    model, networks = loaded(folder, kind)
    for text, counts in zip(captions, model.run(networks, captions), strict=True):
        # Stanza itself takes it for padding; takes long for it.
        if "<PAD>" in text or "x" * 1_001 in text:
            assert counts.words
            continue
        words, tags = by_stanza(pipeline, text)
        assert counts.words == words, text
        assert {name: counts.tags.get(name, {}) for name in NAMES[kind].split()} == {
            name: dict(tags[name]) for name in NAMES[kind].split()
        }, text


@pytest.mark.parametrize("kind", KINDS)
def test_order_neighbours_and_batches_change_nothing(folder, captions, kind):
    model, networks = loaded(folder, kind)
    with torch.inference_mode():
        alone = {text: model.run(networks, [text])[0] for text in captions}
        for seed in range(4):
            some = random.Random(seed).sample(captions, len(captions) - 7 * seed)
            assert model.run(networks, some) == [alone[text] for text in some]
            runner = BatchRunner(
                lambda batch: model.run(networks, batch), cost=model.cost, most_items=5 + seed
            )
            assert runner.map(some) == [alone[text] for text in some]


def seen(processor, monkeypatch):
    """Return a list that receives the sizes of each batch.

    An entry has the padded words, the real words, and the cells of the characters.
    """
    trainer = processor.trainers[0] if hasattr(processor, "trainers") else processor.trainer
    found, predict = [], trainer.predict

    def spy(batch, **arguments):
        if hasattr(batch, "words"):
            words, characters, real = (
                batch.words.numel(),
                batch.wordchars.numel(),
                sum(map(int, batch.lens)),
            )
        else:
            real, words = sum(batch[8]), len(batch[8]) * max(batch[8])
            characters = max(batch[1].numel(), batch[3][0].numel())
        found.append((words, real, characters))
        return predict(batch, **arguments)

    monkeypatch.setattr(trainer, "predict", spy)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_words", [1_000, 4_800])
def test_one_long_sentence_among_short_ones_pads_none_of_them(folder, monkeypatch, kind, max_words):
    model, networks = loaded(folder, kind, pretokenized=True, max_words=max_words)
    batches = seen(networks.processor, monkeypatch)
    for texts in (
        ["dog"] * 200 + ["dog cat " * 2_400] + ["cat"] * 48,
        ["dog\n" * 248 + "dog cat " * 2_400],
    ):
        batches.clear()
        counts = model.run(networks, texts)
        assert sum(each.words for each in counts) == sum(real for _, real, _ in batches) == 5_048
        assert all(words <= 5_000 and characters <= 100_000 for words, _, characters in batches)
        assert sum(words for words, _, _ in batches) <= 1.2 * 5_048


@pytest.mark.parametrize("kind", KINDS)
def test_no_tensor_is_above_the_budget_whatever_captions_are(folder, captions, monkeypatch, kind):
    model, networks = loaded(folder, kind, pretokenized=True)
    batches = seen(networks.processor, monkeypatch)
    odd = [
        "spam " * 20_000,
        "a " * 4_000 + "b" * 20_000,
        "c" * 999 + " d" * 3_000,
        ("e" * 900 + " ") * 110,
        "f\n" * 9_000,
    ]
    counts = model.run(networks, [*odd, *captions])
    assert [each.words for each in counts[:5]] == [20_000, 4_001, 3_001, 110, 9_000]
    assert all(words <= 5_000 and characters <= 100_000 for words, _, characters in batches)
    assert sum(words for words, _, _ in batches) <= 1.2 * sum(real for _, real, _ in batches)


def test_repeated_words_and_one_endless_word_pass_the_tokeniser(folder):
    model, networks = loaded(folder, "pos")
    odd = [
        "spam " * 19_999,
        "w" * 99_999,
        "a " + "b" * 1_001 + " dog",
        ("a@" + "a" * 997 + " ") * 20,
        '\\"' * 40_000,
    ]
    repeated, endless, within, _, quotes, after = model.run(networks, [*odd, "Anna sees a dog."])
    assert repeated.words >= 19_999
    assert (endless.words, within.words, quotes.words) == (1, 3, 1)
    assert dict(after.tags["upos"]) == {"PROPN": 1, "VERB": 1, "DET": 1, "NOUN": 1, "PUNCT": 1}


@pytest.mark.parametrize(
    ("text", "settings", "slug"),
    [
        ("dog " * 11, {"pretokenized": True, "overlong": "refuse"}, "long-sentence"),
        (
            "dog " * 10 + "x" * 1_001,
            {"pretokenized": True, "overlong": "refuse", "max_words": 20},
            "long-word",
        ),
        ("x" * 1_001, {"overlong": "refuse"}, "long-word"),
        ("dog cat " * 12_501, {}, "long-caption"),
    ],
)
def test_what_is_too_long_is_put_aside_with_a_reason_and_costs_nobody_else(
    folder, text, settings, slug
):
    settings = {"max_words": 10, **settings}
    with pytest.raises(ScoreError) as caught:
        compute(made("pos", model=folder, **settings), {"txt": text.encode()})
    assert caught.value.slug == slug
    model, networks = loaded(folder, "pos", **settings)
    first, middle, last = model.run(networks, ["the dog", text, "the dog"])
    assert (first, middle.refused.slug) == (last, slug)
    assert first.words == 2


def test_words_of_stanzas_own_vocabulary_are_words(folder):
    model, networks = loaded(folder, "pos", pretokenized=True)
    first, second = model.run(networks, ["<PAD> <PAD> the dog <ROOT>", "<EMPTY>"])
    assert (first.words, second.words) == (5, 1)
    assert first.tags["upos"]["NOUN"] >= 1


def value(kind, text, **settings):
    return compute(made(kind, **settings), {"txt": text.encode()})


def test_parts_of_speech_are_counted_or_a_share(folder):
    assert value("pos", TEXT, model=folder) == 2
    assert value("pos", TEXT, model=folder, tag="VERB") == 2
    assert value("pos", TEXT, model=folder, tag="PROPN; NOUN") == 6
    assert value("pos", TEXT, model=folder, tag="VBZ", tags="xpos") == 2
    assert value("pos", TEXT, model=folder, tag="VERB", measure="share") == round(2 / 14, 6)
    assert value("pos", "", model=folder) == 0
    with pytest.raises(ScoreError, match="empty-caption"):
        value("pos", " ", model=folder, measure="share")
    with pytest.raises(ScoreError, match=r"unknown-tag: the model has no 'VBX'; it has .*VBZ"):
        value("pos", TEXT, model=folder, tag="VBX", tags="xpos")


def test_entities_are_counted_by_type(folder):
    assert value("entities", TEXT, model=folder) == 3
    assert value("entities", TEXT, model=folder, type="PERSON") == 2
    assert value("entities", TEXT, model=folder, type="GPE;PERSON") == 3
    assert value("entities", "", model=folder, type="GPE") == 0
    with pytest.raises(ScoreError, match="unknown-tag: the model has no 'PER'; it has GPE, PERSON"):
        value("entities", TEXT, model=folder, type="PER")


def test_several_captions_have_a_value_each_and_share_one_run(folder):
    fields = {"json": b'{"texts": ["Anna sees Carl.", "the dog"]}'}
    assert compute(made("entities", model=folder, caption="json:texts"), fields) == [2, 0]
    nouns, verbs = made("pos", model=folder), made("pos", model=folder, tag="VERB")
    assert nouns.models() == verbs.models()


def test_networks_of_a_process_are_loaded_once(folder):
    (_, first), (_, second), (_, other) = (
        loaded(folder, "pos"),
        loaded(folder, "pos"),
        loaded(folder, "entities"),
    )
    assert first.pipeline is second.pipeline
    assert first.tokenizer._pipeline is other.tokenizer._pipeline


def test_captions_are_tokenised_once_for_both_taggers(folder):
    (pos, first), (entities, second) = loaded(folder, "pos"), loaded(folder, "entities")
    pipeline = first.tokenizer._pipeline
    asked, whole = [], pipeline.bulk_process

    def counting(texts):
        asked.extend(texts)
        return whole(texts)

    pipeline.bulk_process = counting
    with torch.inference_mode(), contextlib.ExitStack() as after:
        after.callback(setattr, pipeline, "bulk_process", whole)
        some = ["Anna walks to Paris.", "A cat of Carl. It runs.", "Anna walks to Paris."]
        tagged = pos.run(first, some), entities.run(second, some)
        assert sorted(asked) == sorted(set(some))
        stanza_tokenizer._caches.pop(pipeline)
        assert (
            pos.run(loaded(folder, "pos")[1], some),
            entities.run(loaded(folder, "entities")[1], some),
        ) == tagged
        assert len(asked) == 4


def test_what_is_remembered_of_captions_is_bounded(monkeypatch):
    monkeypatch.setattr(stanza_tokenizer, "CACHED_CHARACTERS", 10)
    remembered = stanza_tokenizer.SentenceCache()
    for text in ("aaaa", "bbbb", "aaaa", "cccc", "d" * 11):
        remembered.add(text, [])
        assert sum(map(len, remembered._sentences)) <= 10
    assert not remembered.of(["aaaa", "bbbb"])


def test_nothing_is_asked_of_the_network(folder, monkeypatch, tmp_path):
    tried = []

    def refuse(_, address):
        tried.append(address)
        raise ConnectionRefusedError(address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert value("entities", TEXT, model=folder, max_words=999) == 3
    tagger = torch.load(f"{folder}/en/pos/tiny.pt", weights_only=True)
    tagger["config"]["bert_model"] = "nobody/has-this"
    torch.save(tagger, tmp_path / "tagger.pt")
    with pytest.raises(
        ValueError, match="the transformer 'nobody/has-this' is not in the hub's folder"
    ):
        value("pos", TEXT, model=str(tmp_path / "tagger.pt"), pretokenized=True)
    assert not tried
