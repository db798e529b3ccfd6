"""The number or share of words with a part of speech."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ..base import ScoreError, Value, bare
from .model_score import Output
from .tagging.parts_of_speech import PartsOfSpeech
from .tagging.tagger import Tagger
from .tagging.tagging_score import TagScore, names_in

if TYPE_CHECKING:
    from ..sample_view import View

UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()


@dataclass(frozen=True, kw_only=True)
class Pos(TagScore):
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

    name: ClassVar[str] = "pos"
    asks: ClassVar[type[Tagger]] = PartsOfSpeech

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
        """Return the number, or the share, for each caption."""
        found = self.counted(outputs, self.tags, names_in(self.tag))
        if self.measure == "count":
            return bare([number for number, _ in found])
        if any(not words for _, words in found):
            raise ScoreError("empty-caption", "it has no words")
        return bare([round(number / words, 6) for number, words in found])
