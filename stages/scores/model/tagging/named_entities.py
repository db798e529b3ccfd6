"""Stanza's recogniser of named entities as a model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from .tagger import Tagger, Words, document_of


@dataclass(frozen=True, kw_only=True)
class NamedEntities(Tagger):
    """From a caption to how many entities of each type are in it, as "entity"."""

    kind: ClassVar[str] = "stanza named entities"
    processor: ClassVar[Literal["pos", "ner"]] = "ner"
    unit: ClassVar[Literal["words", "tokens"]] = "tokens"

    def tag(self, processor: Any, sentences: Sequence[Words]) -> list[list[Any]]:
        """Return the tag of each token ("B-PERSON", "O"). What ``NERProcessor.process`` does with a batch, and no more."""
        from stanza.models.ner.data import DataLoader

        trainer = processor.trainers[0]
        (batch,) = DataLoader(
            document_of(sentences),
            len(sentences),
            processor.configs[0],
            vocab=trainer.vocab,
            evaluation=True,
            preprocess_tags=False,
            bert_tokenizer=trainer.model.bert_tokenizer,
        )
        found: list[list[Any]] = trainer.predict(batch)
        return found

    def count(self, tags: Sequence[Any]) -> dict[str, Counter[str]]:
        """Return how many entities of each type are in a sentence."""
        from stanza.models.ner.utils import decode_from_bioes

        return {"entity": Counter(each["type"] for each in decode_from_bioes(tags))}

    def known(self, processor: Any) -> dict[str, frozenset[str]]:
        """Return the types."""
        return {"entity": frozenset(processor.get_known_tags())}
