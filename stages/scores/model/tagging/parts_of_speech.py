"""Stanza's tagger of parts of speech as a model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .tagger import Tagger, Words, document_of


@dataclass(frozen=True, kw_only=True)
class PartsOfSpeech(Tagger):
    """From a caption to how often each part of speech is in it, as "upos" and as "xpos"."""

    kind: ClassVar[str] = "stanza parts of speech"
    processor: ClassVar[Literal["pos", "ner"]] = "pos"
    unit: ClassVar[Literal["words", "tokens"]] = "words"

    def tag(self, processor: Any, sentences: Sequence[Words]) -> list[list[Any]]:
        """Return (upos, xpos) of each word. What ``POSProcessor.process`` does with a batch, and no more."""
        from stanza.models.pos.data import Dataset

        data = Dataset(
            document_of(sentences), processor.config, processor.pretrain, vocab=processor.vocab, evaluation=True
        )
        found = processor.trainer.predict(data.collate_fn([data[at] for at in range(len(data))]))
        return [[(tags[0], tags[1]) for tags in sentence] for sentence in found]

    def count(self, tags: Sequence[Any]) -> dict[str, Counter[str]]:
        """Return how often each tag is in a sentence."""
        return {"upos": Counter(upos for upos, _ in tags), "xpos": Counter(xpos for _, xpos in tags)}

    def known(self, processor: Any) -> dict[str, frozenset[str]]:
        """Return the tags; those of a language whose xpos are made of parts are too many to tell."""
        xpos = processor.get_known_xpos()
        found = {"upos": frozenset(processor.get_known_upos())}
        return {**found, "xpos": frozenset(xpos)} if isinstance(xpos, list) else found
