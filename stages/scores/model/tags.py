"""Scores of words with a tag: parts of speech, named entities."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from ..base import ScoreError, Value, bare
from .model_score import CaptionModelScore, Output, local_path
from .tagger import NamedEntities, PartsOfSpeech, TagCounts, Tagger, TaggerSettings, TaggingBudget

if TYPE_CHECKING:
    from ..sample_view import View

_FILES = ("model", "tokenizer")


@dataclass(frozen=True, kw_only=True)
class TagScore(
    TaggerSettings,
    CaptionModelScore,
    low=0,
    needs=("stanza",),
    packages=("stanza", "torch"),
    ranges={"max_words": (1, TaggingBudget().words)},
):
    """A score of Stanza's tags of a caption's words; for its settings see ``Tagger``."""

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
        """Return the settings without paths: the files' contents are part of the model's identity."""
        return {name: value for name, value in super().settings().items() if name not in _FILES}

    def counted(self, outputs: Sequence[TagCounts], tag_set: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
        """Return, for each caption, how many of the wanted tags it has, or of any if none are named; and how many words.

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
    """Return the names in a setting.

    >>> names_in("NOUN; PROPN")
    ('NOUN', 'PROPN')
    """
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
