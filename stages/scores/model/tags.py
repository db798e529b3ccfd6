"""Scores of tagged words (parts of speech, named entities), and Stanza's taggers as their models."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from ..base import ScoreError, Value, bare
from . import stanza_files
from .model_score import CaptionModelScore, Model, Output, local_path, source_of
from .stanza_files import LONGEST_CAPTION, Overlong, RefusedSentence, Tokenizer

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.doc import Document
    from stanza.pipeline.processor import Processor

    from ..sample_view import View

# The most padded words for each real one.
WASTE = 1.2


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

        ``words``: after padding sentences to the one with the most words. ``word_characters``: after padding words to
        the longest, for a tagger with a character network. ``characters``: after padding sentences to the one with the
        most characters, for a tagger with a character language model.
        """
        return words <= self.words and max(word_characters, characters) <= self.characters


def shape_of(words: Sequence[str]) -> Shape:
    """Return the size of a sentence of at least one word."""
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


Words = list[str]
# "B-PERSON", or (upos, xpos).
Tag = Any


class TagCounts(NamedTuple):
    """The number of words of a caption, and of each tag, by tag set ("upos", "xpos", "entity").

    ``known``: the tags of the model, by tag set; sets of too many are missing. ``refused``: why there are no numbers.
    """

    words: int
    tags: Mapping[str, Mapping[str, int]]
    known: Mapping[str, frozenset[str]]
    refused: RefusedSentence | None = None


@dataclass(frozen=True)
class Loaded:
    """A tokeniser, None if captions are already tokenised, and Stanza's processor for tags."""

    tokenizer: Tokenizer | None
    # Referenced, so that it stays shared.
    pipeline: "Pipeline"
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
    """A tagger of Stanza. Items are captions, outputs ``TagCounts``.

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
        settings = self.model, self.lang, self.package, self.tokenizer, self.pretokenized
        return stanza_files.stanza_files(self.processor, *settings)

    def load(self, device: str) -> Loaded:
        """Return the networks. Raises ValueError if a file is missing."""
        files = self.files()
        tokenizer = None if self.pretokenized else Tokenizer(files, self.lang, device)
        own = {name: path for name, path in files.items() if name.startswith(self.processor)}
        pipeline = stanza_files.load_pipeline(own, self.lang, device, f"tokenize,{self.processor}")
        processor = pipeline.processors[self.processor]
        return Loaded(tokenizer, pipeline, processor, self.known(processor))

    def run(self, loaded: Loaded, batch: Sequence[str]) -> list[TagCounts]:
        read = self._read(loaded, batch)
        parts = [
            (owner, part)
            for owner, sentences in enumerate(read)
            if not isinstance(sentences, RefusedSentence)
            for words in sentences
            for part in stanza_files.pieces(words, self.max_words, self.budget.characters)
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
        """Return a caption of as many words as a batch may have."""
        return "\n\n".join([" ".join(["words"] * 20)] * 250)

    def called(self) -> str:
        return f"{self.kind}, {self.model!r}"

    def identity(self) -> dict[str, object]:
        settings = {name: getattr(self, name) for name in ("lang", "pretokenized", "max_words", "overlong")}
        files = {name: source_of(str(path)) for name, path in self.files().items()}
        return {**super().identity(), "settings": {**settings, "budget": list(self.budget), "files": files}}

    def _read(self, loaded: Loaded, batch: Sequence[str]) -> list[list[Words] | RefusedSentence]:
        """Return the sentences of each caption, or the reason to quarantine it."""
        texts = [text for text in batch if len(text) <= LONGEST_CAPTION]
        if loaded.tokenizer is None:
            read = iter([stanza_files.split_at_spaces(text) for text in texts])
        else:
            read = iter(loaded.tokenizer.sentences(texts, self.unit))
        found: list[list[Words] | RefusedSentence] = []
        for text in batch:
            if len(text) > LONGEST_CAPTION:
                detail = f"it has {len(text):,} characters, more than {LONGEST_CAPTION:,}"
                found.append(RefusedSentence("long-caption", detail))
                continue
            sentences, refused = next(read), None
            if self.overlong == "refuse":
                refused = stanza_files.refusal(sentences, self.max_words, self.budget.characters)
            found.append(refused or sentences)
        return found

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
    """Return a Stanza document that has only the words."""
    from stanza.models.common.doc import ID, TEXT, Document

    return Document([[{ID: (at,), TEXT: word} for at, word in enumerate(words, 1)] for words in sentences])


@dataclass(frozen=True, kw_only=True)
class NamedEntities(Tagger, kind="stanza named entities", processor="ner", unit="tokens"):
    """From a caption to the number of its entities of each type, as "entity"."""

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
    """From a caption to the number of its words of each part of speech, as "upos" and as "xpos"."""

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
        """Return the tags; "xpos" is missing if it is composed of parts, as there are too many to list."""
        xpos = processor.get_known_xpos()
        found = {"upos": frozenset(processor.get_known_upos())}
        return {**found, "xpos": frozenset(xpos)} if isinstance(xpos, list) else found


_FILES = ("model", "tokenizer")


@dataclass(frozen=True, kw_only=True)
class TagScore(TaggerSettings, CaptionModelScore, low=0, needs=("stanza",), packages=("stanza", "torch")):
    """A score of Stanza's tags of a caption's words; for its settings see ``Tagger``."""

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"max_words": (1, TaggingBudget().words)}
    tagger: ClassVar[type[Tagger]]

    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(f"{self.name} needs model='FOLDER' of Stanza's models, or a file of one")
        for name in _FILES:
            local_path(getattr(self, name))

    def main_model(self) -> Tagger:
        return self.tagger(**{each.name: getattr(self, each.name) for each in fields(TaggerSettings)})

    def item(self, text: str) -> str:
        return text

    def settings(self) -> dict[str, object]:
        """Return the settings without paths: the model's identity includes hashes of the files."""
        return {name: value for name, value in super().settings().items() if name not in _FILES}

    def counted(self, outputs: Sequence[TagCounts], tag_set: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
        """Return (number of wanted tags, number of words) for each caption; all tags are wanted if none are named.

        Raises ScoreError if a caption is quarantined ("long-sentence", "long-word", "long-caption"), or if the model
        has no such tag ("unknown-tag").
        """
        found = []
        for counts in outputs:
            if counts.refused:
                raise ScoreError(*counts.refused)
            known = counts.known.get(tag_set)
            if known is not None and (odd := sorted(set(wanted) - known)):
                raise ScoreError("unknown-tag", f"the model has no {odd[0]!r}; it has {', '.join(sorted(known))}")
            tags = counts.tags.get(tag_set, {})
            found.append((sum(tags.get(name, 0) for name in wanted or tags), counts.words))
        return found


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a setting: "NOUN; PROPN"."""
    return tuple(dict.fromkeys(name for part in text.split(";") if (name := part.strip())))


UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()


@dataclass(frozen=True, kw_only=True)
class Pos(TagScore, name="pos", tagger=PartsOfSpeech):
    """Number of words of a caption with a part of speech, by Stanza; with measure="share", their share.

    ``tag``: one of Universal Dependencies' ("NOUN", "VERB"; several as "NOUN;PROPN"), or with ``tags`` "xpos" one of
    the model's own ("VBZ"), compared as a whole. The share is that of all words, punctuation included; a caption
    without words has none ("empty-caption"). Words are syntactic: "won't" may be two. ``model``: a folder written by
    ``stanza.download(model_dir=...)``, of which ``package`` of the language ``lang`` is used, or the tagger's file.
    Nothing is downloaded. ``tokenizer``: another file that finds words and sentences; ``pretokenized``: captions have
    words between spaces, and one sentence per line. Sentences above ``max_words`` words, or above 100,000 padded
    characters, are split, and words above 1,000 characters count as unknown; with overlong="refuse" their captions are
    an error ("long-sentence", "long-word"). Captions above 100,000 characters always are ("long-caption"). An unknown
    tag is an error ("unknown-tag"). One value for each caption. Six digits. Other items of a batch change a value only
    if two tags are equally likely to 1e-5. Source: Stanza's POSProcessor.
    """

    tag: str = "NOUN"
    tags: Literal["upos", "xpos"] = "upos"
    measure: Literal["count", "share"] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = names_in(self.tag)
        if not names:
            raise ValueError("pos needs tag='NOUN', or several as 'NOUN;PROPN'")
        if self.tags == "upos" and (odd := [name for name in names if name not in UPOS]):
            raise ValueError(
                f"pos: {odd[0]!r} is not one of {', '.join(UPOS)}; for the model's own tags give tags='xpos'"
            )

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        found = self.counted(outputs, self.tags, names_in(self.tag))
        if self.measure == "count":
            return bare([number for number, _ in found])
        if any(not words for _, words in found):
            raise ScoreError("empty-caption", "it has no words")
        return bare([round(number / words, 6) for number, words in found])


@dataclass(frozen=True, kw_only=True)
class Entities(TagScore, name="entities", tagger=NamedEntities):
    """Number of named entities in a caption, by Stanza: all, or those of a type.

    ``type``: a type of the model ("PERSON"; for models trained on CoNLL, "PER"; several as "PERSON;ORG"), "" for all;
    an unknown type is an error ("unknown-tag"). An entity counts once, however many words it has. ``model``: a folder
    written by ``stanza.download(model_dir=...)``, of which ``package`` of the language ``lang`` is used, or the
    recogniser's file. Nothing is downloaded. ``tokenizer``: another file that finds words and sentences;
    ``pretokenized``: captions have words between spaces, and one sentence per line. Sentences above ``max_words``
    words, or above 100,000 padded characters, are split, and words above 1,000 characters count as unknown; with
    overlong="refuse" their captions are an error ("long-sentence", "long-word"). Captions above 100,000 characters
    always are ("long-caption"). One value for each caption. Other items of a batch change a value only if two readings
    are equally likely to 1e-5. Source: Stanza's NERProcessor.
    """

    type: str = ""

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        return bare([number for number, _ in self.counted(outputs, "entity", names_in(self.type))])
