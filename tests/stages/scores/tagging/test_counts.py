"""From tags of words to the values of ``pos`` and ``entities``.

The tags are given: no network runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from wdsflow.stages.scores import ScoreError, View, ViewOptions
from wdsflow.stages.scores.model.tagging.taggers import Loaded, NamedEntities, PartsOfSpeech
from wdsflow.stages.scores.model.tagging.tags import Entities, Pos

UPOS = {"dog": "NOUN", "Anna": "PROPN", "sees": "VERB", ".": "PUNCT"}
KNOWN = {"upos": frozenset(UPOS.values()), "xpos": frozenset({"NN", "VBZ"})}
LOADED = Loaded(None, None, None, KNOWN)


@dataclass(frozen=True, kw_only=True)
class Parts(PartsOfSpeech):
    """Knows four words, and that a sentence has at most so many words."""

    def tag(self, processor: Any, sentences: Sequence[list[str]]) -> list[list[Any]]:
        assert all(len(words) <= self.max_words for words in sentences)
        return [
            [(UPOS[word], "VBZ" if word == "sees" else "NN") for word in words]
            for words in sentences
        ]


def parts(texts: Sequence[str], **settings: Any) -> list[Any]:
    return Parts(model="none", pretokenized=True, **settings).run(LOADED, texts)


def value(score: Pos | Entities, outputs: Sequence[Any]) -> Any:
    return score.value(View({}, ViewOptions()), outputs)


def test_a_tagger_gets_each_caption_as_it_is() -> None:
    view = View({"0.txt": b" Anna sees\n a dog ", "1.txt": b"dog"})

    requests = Pos(model="x").requests(view)

    assert [request.make() for request in requests] == [" Anna sees\n a dog ", "dog"]


@pytest.mark.parametrize("words", [2, 1_000])
def test_parts_of_speech_are_counted_over_all_sentences_of_each_caption(words: int):
    found = parts(["dog sees dog\nAnna sees .", "Anna", ""], max_words=words)
    assert [each.words for each in found] == [6, 1, 0]
    assert value(Pos(model="x"), found) == [2, 0, 0]
    assert value(Pos(model="x", tag="NOUN; PROPN"), found) == [3, 1, 0]
    assert value(Pos(model="x", tag="VBZ", tags="xpos"), found[:1]) == 2
    assert value(Pos(model="x", tag="VERB", measure="share"), found[:2]) == [0.333333, 0]
    with pytest.raises(ScoreError, match="it has no words"):
        value(Pos(model="x", measure="share"), found)
    with pytest.raises(
        ScoreError, match="the model has no 'ADJ'; it has NOUN, PROPN, PUNCT, VERB"
    ) as unknown:
        value(Pos(model="x", tag="NOUN;ADJ"), found)
    assert unknown.value.slug == "unknown-tag"


def test_a_network_that_leaves_a_word_out_is_an_error() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Forgetful(Parts):
        def tag(self, processor: Any, sentences: Sequence[list[str]]) -> list[list[Any]]:
            return [tags[1:] for tags in super().tag(processor, sentences)]

    with pytest.raises(ValueError, match="1 tag for 2 words"):
        Forgetful(model="none", pretokenized=True).run(LOADED, ["dog sees"])


def test_captions_that_are_too_long_have_no_number_and_cost_no_other():
    texts = ["dog", "dog sees Anna", "dog " * 30_000]
    found = parts(texts, max_words=2, overlong="refuse")
    assert value(Pos(model="x"), found[:1]) == 1
    for output, slug in zip(found[1:], ("long-sentence", "long-caption"), strict=True):
        with pytest.raises(ScoreError) as refused:
            value(Pos(model="x"), [output])
        assert refused.value.slug == slug


def test_an_entity_of_several_words_counts_once():
    pytest.importorskip("stanza", reason="Stanza is not installed")
    tags = {
        "Anna": "B-PERSON",
        "Maria": "I-PERSON",
        "Diana": "E-PERSON",
        "Berlin": "S-GPE",
        "in": "O",
    }

    @dataclass(frozen=True, kw_only=True)
    class Names(NamedEntities):
        def tag(self, processor: Any, sentences: Sequence[list[str]]) -> list[list[Any]]:
            return [[tags[word] for word in words] for words in sentences]

    loaded = Loaded(None, None, None, {"entity": frozenset({"PERSON", "GPE"})})
    found = Names(model="none", pretokenized=True).run(
        loaded, ["Anna Maria Diana in Berlin", "in", "Berlin\nBerlin"]
    )
    assert value(Entities(model="x"), found) == [2, 0, 2]
    assert value(Entities(model="x", type="PERSON"), found) == [1, 0, 0]
    assert value(Entities(model="x", type="PERSON;GPE"), found[:1]) == 2
    with pytest.raises(ScoreError, match="the model has no 'ORG'"):
        value(Entities(model="x", type="ORG"), found)
