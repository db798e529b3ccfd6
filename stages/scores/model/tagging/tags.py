"""Scores of tagged words: parts of speech, and named entities, by Stanza."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from ...base import ScoreError, Value, single_or_list
from ..model import Output
from ..model_files import local_path
from ..model_score import CaptionModelScore
from .taggers import NamedEntities, PartsOfSpeech, TagCounts, Tagger, TaggerSettings
from .tagging_batches import TaggingBudget

if TYPE_CHECKING:
    from ...sample_view import View

UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
# Settings that are paths.
_FILES = ("model", "tokenizer")


@dataclass(frozen=True, kw_only=True)
class TagScore(
    TaggerSettings, CaptionModelScore, low=0, needs=("stanza",), packages=("stanza", "torch")
):
    """A score of Stanza's tags of a caption's words; for its settings see ``Tagger``."""

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"max_words": (1, TaggingBudget().words)}
    tagger: ClassVar[type[Tagger]]

    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(
                f"{self.name} needs model='FOLDER' of Stanza's models, or a file of one"
            )
        for name in _FILES:
            local_path(getattr(self, name))

    def main_model(self) -> Tagger:
        settings = {setting.name: getattr(self, setting.name) for setting in fields(TaggerSettings)}
        return self.tagger(**settings)

    def item(self, text: str) -> str:
        return text

    def settings(self) -> dict[str, object]:
        """Return the settings without paths: the model's identity includes hashes of the files."""
        return {name: value for name, value in super().settings().items() if name not in _FILES}

    def tag_counts(
        self, outputs: Sequence[TagCounts], tag_set: str, names: Sequence[str]
    ) -> list[tuple[int, int]]:
        """Return (number of words or entities with these tags, number of words) for each caption.

        All tags count if ``names`` is empty. Raises ScoreError if a caption is quarantined
        ("long-sentence", "long-word", "long-caption"), or if the model has no such tag
        ("unknown-tag").
        """
        numbers: list[tuple[int, int]] = []
        for counts in outputs:
            if counts.refused:
                raise ScoreError(*counts.refused)
            model_tags = counts.model_tags.get(tag_set)
            if model_tags is not None:
                _refuse_unknown(names, model_tags)
            tags = counts.tags.get(tag_set, {})
            numbers.append((sum(tags.get(name, 0) for name in names or tags), counts.words))
        return numbers


@dataclass(frozen=True, kw_only=True)
class Pos(TagScore, name="pos", tagger=PartsOfSpeech):
    """Number of words of a caption with a part of speech, by Stanza.

    With measure="share", it is their share.

    ``tag``: one of Universal Dependencies' ("NOUN", "VERB"; several as "NOUN;PROPN"), or with
    ``tags`` "xpos" one of the model's own ("VBZ"), compared as a whole. The share is that of all
    words, punctuation included; a caption without words has none ("empty-caption"). Words are
    syntactic: "won't" may be two. ``model``: a folder written by
    ``stanza.download(model_dir=...)``, of which ``package`` of the language ``lang`` is used, or
    the tagger's file. Nothing is downloaded. ``tokenizer``: another file that finds words and
    sentences; ``pretokenized``: captions have words between spaces, and one sentence per line.
    Sentences above ``max_words`` words, or above 100,000 padded characters, are split, and words
    above 1,000 characters count as unknown; with overlong="refuse" their captions are an error
    ("long-sentence", "long-word"). Captions above 100,000 characters always are ("long-caption").
    An unknown tag is an error ("unknown-tag"). One value for each caption. Six digits. Other items
    of a batch change a value only if two tags are equally likely to 1e-5. Source: Stanza's
    POSProcessor.
    """

    tag: str = "NOUN"
    tags: Literal["upos", "xpos"] = "upos"
    measure: Literal["count", "share"] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = names_in(self.tag)
        if not names:
            raise ValueError("pos needs tag='NOUN', or several as 'NOUN;PROPN'")
        unknown = [name for name in names if name not in UPOS]
        if self.tags == "upos" and unknown:
            raise ValueError(
                f"pos: {unknown[0]!r} is not one of {', '.join(UPOS)}; for the model's own tags give tags='xpos'"
            )

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        numbers = self.tag_counts(outputs, self.tags, names_in(self.tag))
        if self.measure == "count":
            return single_or_list([number for number, _ in numbers])
        if any(not words for _, words in numbers):
            raise ScoreError("empty-caption", "it has no words")
        return single_or_list([round(number / words, 6) for number, words in numbers])


@dataclass(frozen=True, kw_only=True)
class Entities(TagScore, name="entities", tagger=NamedEntities):
    """Number of named entities in a caption, by Stanza: all, or those of a type.

    ``type``: a type of the model ("PERSON"; for models trained on CoNLL, "PER"; several as
    "PERSON;ORG"), "" for all; an unknown type is an error ("unknown-tag"). An entity counts once,
    however many words it has. ``model``: a folder written by ``stanza.download(model_dir=...)``, of
    which ``package`` of the language ``lang`` is used, or the recogniser's file. Nothing is
    downloaded. ``tokenizer``: another file that finds words and sentences; ``pretokenized``:
    captions have words between spaces, and one sentence per line. Sentences above ``max_words``
    words, or above 100,000 padded characters, are split, and words above 1,000 characters count as
    unknown; with overlong="refuse" their captions are an error ("long-sentence", "long-word").
    Captions above 100,000 characters always are ("long-caption"). One value for each caption. Other
    items of a batch change a value only if two readings are equally likely to 1e-5. Source:
    Stanza's NERProcessor.
    """

    type: str = ""

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        return single_or_list(
            [number for number, _ in self.tag_counts(outputs, "entity", names_in(self.type))]
        )


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a setting: "NOUN; PROPN"."""
    names = [part.strip() for part in text.split(";")]
    return tuple(dict.fromkeys(name for name in names if name))


def _refuse_unknown(names: Sequence[str], model_tags: frozenset[str]) -> None:
    unknown = sorted(set(names) - model_tags)
    if unknown:
        raise ScoreError(
            "unknown-tag",
            f"the model has no {unknown[0]!r}; it has {', '.join(sorted(model_tags))}",
        )
