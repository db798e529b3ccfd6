"""Stanza's taggers as models of parts of speech and named entities.

They return the counts of these in captions.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from wdsflow.text.words import how_many

from ..model import Model
from ..model_files import source_of
from .caption_sentences import (
    LONGEST_CAPTION,
    Overlong,
    RefusedSentence,
    refusal,
    split_at_spaces,
    split_sentence,
)
from .stanza_files import stanza_files
from .stanza_pipelines import load_pipeline
from .stanza_tokenizer import Tokenizer
from .tagging_batches import TaggingBudget, batches, shape_of

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.doc import Document
    from stanza.pipeline.processor import Processor

Words = list[str]
# "B-PERSON", or (upos, xpos).
Tag = Any


class TagCounts(NamedTuple):
    """The number of words of a caption, and of each tag.

    Attributes:
        words: all words.
        tags: how often each tag is there, by tag set ("upos", "xpos", "entity").
        model_tags: the tags of the model, by tag set; sets of too many are missing.
        refused: why there are no numbers.
    """

    words: int
    tags: Mapping[str, Mapping[str, int]]
    model_tags: Mapping[str, frozenset[str]]
    refused: RefusedSentence | None = None


@dataclass(frozen=True)
class Loaded:
    """The networks of a tagger.

    Attributes:
        tokenizer: None if captions are already tokenised.
        pipeline: referenced, so that it stays shared.
        processor: Stanza's processor for tags.
        model_tags: the tags of the model, by tag set.
    """

    tokenizer: Tokenizer | None
    pipeline: "Pipeline"
    processor: "Processor"
    model_tags: Mapping[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class TaggerSettings:
    """Settings of a tagger, and of its scores."""

    model: str = ""
    lang: str = "en"
    package: str = "default"
    tokenizer: str = ""
    pretokenized: bool = False
    max_words: int = 1_000
    overlong: Overlong = "split"


@dataclass(frozen=True, kw_only=True)
class Tagger(TaggerSettings, Model, packages=("torch", "stanza")):
    """A tagger of Stanza. Items are captions, outputs ``TagCounts``.

    ``model`` and ``tokenizer``: see ``stanza_files``. Sentences of a batch of captions are sorted
    by length and tagged in batches bounded by padded words and padded characters: see
    ``TaggingBudget``. With ``overlong`` "split", sentences above ``max_words`` words, or above the
    budget, are tagged in pieces, and words above 1,000 characters as unknown ones; with "refuse"
    their captions are quarantined. Captions above 100,000 characters always are.
    """

    processor: ClassVar[Literal["pos", "ner"]]
    unit: ClassVar[Literal["words", "tokens"]]

    budget: TaggingBudget = field(default=TaggingBudget())

    def files(self) -> dict[str, Path]:
        """Return the files by Stanza's names for them. Raises ValueError if one is missing."""
        settings = self.model, self.lang, self.package, self.tokenizer, self.pretokenized
        return stanza_files(self.processor, *settings)

    def load(self, device: str) -> Loaded:
        """Return the networks. Raises ValueError if a file is missing."""
        files = self.files()
        tokenizer = None if self.pretokenized else Tokenizer(files, self.lang, device)
        tagger_files = {
            name: path for name, path in files.items() if name.startswith(self.processor)
        }
        pipeline = load_pipeline(tagger_files, self.lang, device, f"tokenize,{self.processor}")
        processor = pipeline.processors[self.processor]
        return Loaded(tokenizer, pipeline, processor, self.model_tags(processor))

    def run(self, loaded: Loaded, batch: Sequence[str]) -> list[TagCounts]:
        captions = self._sentences(loaded, batch)
        # Sentences above the limits are tagged in pieces.
        owners: list[int] = []
        parts: list[Words] = []
        for number, sentences in enumerate(captions):
            if isinstance(sentences, RefusedSentence):
                continue
            for sentence in sentences:
                for part in split_sentence(sentence, self.max_words, self.budget.characters):
                    owners.append(number)
                    parts.append(part)
        words = [0] * len(captions)
        counts: list[dict[str, Counter[str]]] = [{} for _ in captions]
        for owner, tags in zip(owners, self._tagged(loaded, parts), strict=True):
            words[owner] += len(tags)
            for tag_set, counter in self.count(tags).items():
                counts[owner].setdefault(tag_set, Counter()).update(counter)
        outputs: list[TagCounts] = []
        for number, sentences in enumerate(captions):
            refused = sentences if isinstance(sentences, RefusedSentence) else None
            tags_by_set = {tag_set: dict(counter) for tag_set, counter in counts[number].items()}
            outputs.append(TagCounts(words[number], tags_by_set, loaded.model_tags, refused))
        return outputs

    def cost(self, item: str) -> int:
        return max(1, len(item))

    def largest(self) -> str:
        """Return a caption of as many words as a batch may have."""
        return "\n\n".join([" ".join(["words"] * 20)] * 250)

    def display_name(self) -> str:
        return f"{self.kind}, {self.model!r}"

    def identity(self) -> dict[str, object]:
        settings = {
            name: getattr(self, name) for name in ("lang", "pretokenized", "max_words", "overlong")
        }
        files = {name: source_of(str(path)) for name, path in self.files().items()}
        return {
            **super().identity(),
            "settings": {**settings, "budget": list(self.budget), "files": files},
        }

    def _sentences(
        self, loaded: Loaded, batch: Sequence[str]
    ) -> list[list[Words] | RefusedSentence]:
        """Return the sentences of each caption, or the reason to quarantine it."""
        texts = [text for text in batch if len(text) <= LONGEST_CAPTION]
        if loaded.tokenizer is None:
            split_texts = iter([split_at_spaces(text) for text in texts])
        else:
            split_texts = iter(loaded.tokenizer.sentences(texts, self.unit))
        captions: list[list[Words] | RefusedSentence] = []
        for text in batch:
            if len(text) > LONGEST_CAPTION:
                detail = f"it has {len(text):,} characters, more than {LONGEST_CAPTION:,}"
                captions.append(RefusedSentence("long-caption", detail))
                continue
            sentences = next(split_texts)
            refused = None
            if self.overlong == "refuse":
                refused = refusal(sentences, self.max_words, self.budget.characters)
            captions.append(refused or sentences)
        return captions

    def _tagged(self, loaded: Loaded, sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the tagger's output for each word, in input order.

        Raises ValueError if the tagger has another number of outputs than words.
        """
        tags_of: list[list[Tag]] = [[] for _ in sentences]
        for positions in batches([shape_of(words) for words in sentences], self.budget):
            outputs = self.tag(loaded.processor, [sentences[position] for position in positions])
            for position, tags in zip(positions, outputs, strict=True):
                words = len(sentences[position])
                if len(tags) != words:
                    given, expected = how_many(len(tags), "tag"), how_many(words, "word")
                    raise ValueError(f"{self.kind}: {given} for {expected}")
                tags_of[position] = tags
        return tags_of

    @abstractmethod
    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the output for each word of a batch of sentences."""

    @abstractmethod
    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        """Return how often each tag is in a sentence, by tag set."""

    @abstractmethod
    def model_tags(self, processor: "Processor") -> dict[str, frozenset[str]]:
        """Return the tags of the network, by tag set."""


def document_of(sentences: Sequence[Words]) -> "Document":
    """Return a Stanza document that has only the words."""
    from stanza.models.common.doc import ID, TEXT, Document

    # Stanza counts words from 1.
    numbered = [enumerate(words, 1) for words in sentences]
    return Document([[{ID: (number,), TEXT: word} for number, word in pairs] for pairs in numbered])


@dataclass(frozen=True, kw_only=True)
class NamedEntities(Tagger, kind="stanza named entities", processor="ner", unit="tokens"):
    """From a caption to the number of its entities of each type, as "entity"."""

    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the tag of each token ("B-PERSON", "O").

        They are the same as ``NERProcessor.process`` gives for a batch.
        """
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
        tags: list[list[Tag]] = trainer.predict(batch)
        return tags

    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        from stanza.models.ner.utils import decode_from_bioes

        return {"entity": Counter(entity["type"] for entity in decode_from_bioes(tags))}

    def model_tags(self, processor: "Processor") -> dict[str, frozenset[str]]:
        return {"entity": frozenset(processor.get_known_tags())}


@dataclass(frozen=True, kw_only=True)
class PartsOfSpeech(Tagger, kind="stanza parts of speech", processor="pos", unit="words"):
    """From a caption to the number of its words of each part of speech, as "upos" and as "xpos"."""

    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return (upos, xpos) of each word, as ``POSProcessor.process`` does for a batch."""
        from stanza.models.pos.data import Dataset

        data = Dataset(
            document_of(sentences),
            processor.config,
            processor.pretrain,
            vocab=processor.vocab,
            evaluation=True,
        )
        batch = data.collate_fn([data[number] for number in range(len(data))])
        sentences_of_tags = processor.trainer.predict(batch)
        return [[(tags[0], tags[1]) for tags in sentence] for sentence in sentences_of_tags]

    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        return {
            "upos": Counter(upos for upos, _ in tags),
            "xpos": Counter(xpos for _, xpos in tags),
        }

    def model_tags(self, processor: "Processor") -> dict[str, frozenset[str]]:
        """Return the tags of the model, by kind.

        "xpos" is missing if it is composed of parts: there are too many to list.
        """
        model_tags = {"upos": frozenset(processor.get_known_upos())}
        xpos = processor.get_known_xpos()
        if isinstance(xpos, list):
            model_tags["xpos"] = frozenset(xpos)
        return model_tags
