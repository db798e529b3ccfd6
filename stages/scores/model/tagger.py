"""Stanza's taggers as models: from a caption to how often each tag is in it."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from .model_score import Model, source_of
from .stanza_files import (
    LONGEST_CAPTION,
    Overlong,
    RefusedSentence,
    Tokenizer,
    load_pipeline,
    pieces,
    refusal,
    split_at_spaces,
    stanza_files,
)

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.doc import Document
    from stanza.pipeline.processor import Processor

WASTE = 1.2  # padded words for each real one, at most


class Shape(NamedTuple):
    """The size of a sentence: its words, the characters of its longest word, and of all with a space after each."""

    words: int
    longest: int
    characters: int


class TaggingBudget(NamedTuple):
    """Size that a batch may have after padding."""

    words: int = 5_000
    characters: int = 100_000

    def fits(self, words: int, word_characters: int, characters: int) -> bool:
        """Return whether a batch is within the budget.

        ``words``: each sentence is as long as the longest. ``word_characters``: each word is, for a tagger with a
        character network of its own. ``characters``: each sentence is, for one with a character language model.
        """
        return words <= self.words and max(word_characters, characters) <= self.characters


def shape_of(words: Sequence[str]) -> Shape:
    """Return the size of a sentence, which has a word."""
    lengths = [len(word) for word in words]
    return Shape(len(words), max(lengths), sum(lengths) + len(words) + 1)


def batches(shapes: Sequence[Shape], budget: TaggingBudget) -> list[list[int]]:
    """Return the positions of each batch, the longest sentences first.

    A batch is within the budget, and has at most ``WASTE`` padded words for each real one; a sentence that is above the
    budget by itself is a batch of its own.
    """
    made: list[list[int]] = []
    words = longest = characters = 0
    for at in sorted(range(len(shapes)), key=lambda at: (-shapes[at].words, -shapes[at].longest, at)):
        shape = shapes[at]
        if made:
            size, padded = len(made[-1]) + 1, (len(made[-1]) + 1) * shapes[made[-1][0]].words
            words, longest = words + shape.words, max(longest, shape.longest)
            characters = max(characters, shape.characters)
            if budget.fits(padded, words * longest, size * characters) and padded <= WASTE * words:
                made[-1].append(at)
                continue
        made.append([at])
        words, longest, characters = shape
    return made


_LINES, _WORDS = 250, 20  # of the largest item: as many words as a batch may have

Words = list[str]
Tag = Any  # "B-PERSON", or (upos, xpos)


class TagCounts(NamedTuple):
    """Numbers of a caption: its words, and how many of each tag by tag set ("upos", "xpos", "entity").

    ``known``: the tags of the model, by tag set; a missing set has too many. ``refused``: why there are no numbers.
    """

    words: int
    tags: Mapping[str, Mapping[str, int]]
    known: Mapping[str, frozenset[str]]
    refused: RefusedSentence | None = None


@dataclass(frozen=True)
class Loaded:
    """A tokeniser, None if captions are already tokenised, and Stanza's processor that tags."""

    tokenizer: Tokenizer | None
    pipeline: "Pipeline"  # referenced, so that it stays shared
    processor: "Processor"
    known: Mapping[str, frozenset[str]]


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
    """A tagger of Stanza's. Items are captions, outputs ``TagCounts``.

    ``model`` and ``tokenizer``: see ``stanza_files``. Sentences of a batch of captions are sorted by length and tagged
    in batches bounded by padded words and padded characters: see ``TaggingBudget``. With ``overlong`` "split",
    sentences above ``max_words`` words, or above the budget, are tagged in pieces, and words above 1,000 characters as
    unknown ones; with "refuse" their captions are quarantined. Captions above 100,000 characters always are.
    """

    processor: ClassVar[Literal["pos", "ner"]]
    unit: ClassVar[Literal["words", "tokens"]]

    budget: TaggingBudget = field(default=TaggingBudget())

    def files(self) -> dict[str, Path]:
        """Return the files by Stanza's names for them. Raises ValueError if one is missing."""
        return stanza_files(
            self.processor,
            model=self.model,
            lang=self.lang,
            package=self.package,
            tokenizer=self.tokenizer,
            pretokenized=self.pretokenized,
        )

    def load(self, device: str) -> Loaded:
        """Return the networks. Raises ValueError if a file is missing."""
        files = self.files()
        tokenizer = None if self.pretokenized else Tokenizer(files, self.lang, device)
        own = {name: path for name, path in files.items() if name.startswith(self.processor)}
        pipeline = load_pipeline(own, self.lang, device, f"tokenize,{self.processor}")
        processor = pipeline.processors[self.processor]
        return Loaded(tokenizer, pipeline, processor, self.known(processor))

    def run(self, loaded: Loaded, batch: Sequence[str]) -> list[TagCounts]:
        read = self._read(loaded, batch)
        parts = [
            (owner, part)
            for owner, sentences in enumerate(read)
            if not isinstance(sentences, RefusedSentence)
            for words in sentences
            for part in pieces(words, self.max_words, self.budget.characters)
        ]
        counted: list[dict[str, Counter[str]]] = [{} for _ in batch]
        words_of = Counter[int]()
        for (owner, words), tags in zip(parts, self._tagged(loaded, [words for _, words in parts]), strict=True):
            words_of[owner] += len(words)
            for tag_set, counter in self.count(tags).items():
                counted[owner].setdefault(tag_set, Counter()).update(counter)
        return [
            TagCounts(0, {}, loaded.known, sentences)
            if isinstance(sentences, RefusedSentence)
            else TagCounts(words_of[owner], {name: dict(tags) for name, tags in counted[owner].items()}, loaded.known)
            for owner, sentences in enumerate(read)
        ]

    def cost(self, item: str) -> int:
        return max(1, len(item))

    def largest(self) -> str:
        """Return a caption that fills a batch of sentences."""
        return "\n\n".join([" ".join(["words"] * _WORDS)] * _LINES)

    def called(self) -> str:
        return f"{self.kind}, {self.model!r}"

    def identity(self) -> dict[str, object]:
        settings = {name: getattr(self, name) for name in ("lang", "pretokenized", "max_words", "overlong")}
        files = {name: source_of(str(path)) for name, path in self.files().items()}
        return {**super().identity(), "settings": {**settings, "budget": list(self.budget), "files": files}}

    def _read(self, loaded: Loaded, batch: Sequence[str]) -> list[list[Words] | RefusedSentence]:
        """Return the sentences of each caption, or why it is quarantined."""
        refused = [_too_long(text) for text in batch]
        texts = [text for text, why in zip(batch, refused, strict=True) if why is None]
        if loaded.tokenizer is None:
            read = iter([split_at_spaces(text) for text in texts])
        else:
            read = iter(loaded.tokenizer.sentences(texts, self.unit))
        found = [why or next(read) for why in refused]
        if self.overlong == "split":
            return found
        most = self.max_words, self.budget.characters
        return [each if isinstance(each, RefusedSentence) else refusal(each, *most) or each for each in found]

    def _tagged(self, loaded: Loaded, sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the tagger's output for each word, in input order."""
        found: list[list[Tag]] = [[] for _ in sentences]
        for batch in batches([shape_of(words) for words in sentences], self.budget):
            tags = self.tag(loaded.processor, [sentences[at] for at in batch])
            for at, each in zip(batch, tags, strict=True):
                if len(each) != len(sentences[at]):
                    raise ValueError(f"{self.kind}: {len(sentences[at])} words have {len(each)} tags")
                found[at] = each
        return found

    @abstractmethod
    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the output for each word of a batch of sentences."""

    @abstractmethod
    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        """Return how often each tag is in a sentence, by tag set."""

    @abstractmethod
    def known(self, processor: "Processor") -> dict[str, frozenset[str]]:
        """Return the tags of the network, by tag set."""


def document_of(sentences: Sequence[Words]) -> "Document":
    """Return a document of Stanza's that has only the words."""
    from stanza.models.common.doc import ID, TEXT, Document

    return Document([[{ID: (at,), TEXT: word} for at, word in enumerate(words, 1)] for words in sentences])


def _too_long(text: str) -> RefusedSentence | None:
    if len(text) <= LONGEST_CAPTION:
        return None
    return RefusedSentence("long-caption", f"it has {len(text):,} characters, more than {LONGEST_CAPTION:,}")


@dataclass(frozen=True, kw_only=True)
class NamedEntities(Tagger, kind="stanza named entities", processor="ner", unit="tokens"):
    """From a caption to how many entities of each type are in it, as "entity"."""

    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return the tag of each token ("B-PERSON", "O"), as ``NERProcessor.process`` does for a batch."""
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
        found: list[list[Tag]] = trainer.predict(batch)
        return found

    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        from stanza.models.ner.utils import decode_from_bioes

        return {"entity": Counter(each["type"] for each in decode_from_bioes(tags))}

    def known(self, processor: "Processor") -> dict[str, frozenset[str]]:
        return {"entity": frozenset(processor.get_known_tags())}


@dataclass(frozen=True, kw_only=True)
class PartsOfSpeech(Tagger, kind="stanza parts of speech", processor="pos", unit="words"):
    """From a caption to how often each part of speech is in it, as "upos" and as "xpos"."""

    def tag(self, processor: "Processor", sentences: Sequence[Words]) -> list[list[Tag]]:
        """Return (upos, xpos) of each word, as ``POSProcessor.process`` does for a batch."""
        from stanza.models.pos.data import Dataset

        data = Dataset(
            document_of(sentences), processor.config, processor.pretrain, vocab=processor.vocab, evaluation=True
        )
        found = processor.trainer.predict(data.collate_fn([data[at] for at in range(len(data))]))
        return [[(tags[0], tags[1]) for tags in sentence] for sentence in found]

    def count(self, tags: Sequence[Tag]) -> dict[str, Counter[str]]:
        return {"upos": Counter(upos for upos, _ in tags), "xpos": Counter(xpos for _, xpos in tags)}

    def known(self, processor: "Processor") -> dict[str, frozenset[str]]:
        """Return the tags; a language whose xpos are composed of parts has too many to list."""
        xpos = processor.get_known_xpos()
        found = {"upos": frozenset(processor.get_known_upos())}
        return {**found, "xpos": frozenset(xpos)} if isinstance(xpos, list) else found
