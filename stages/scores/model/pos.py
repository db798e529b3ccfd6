"""Words of a part of speech."""

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
    """Words of a caption that are of a part of speech, by Stanza: their number, or with measure="share" their share.

    ``tag``: one of Universal Dependencies' ("NOUN", "VERB"; several as "NOUN;PROPN"), or with ``tags`` "xpos" one of the
    model's own ("VBZ"), compared as a whole. The share is of all words, punctuation included; a caption without words has
    none ("empty-caption"). Words are syntactic ones: "won't" may be two.
    ``model``: a folder as ``stanza.download(model_dir=...)`` leaves it, or the tagger's file; the folder's ``package`` of
    the language ``lang`` is taken. Nothing is downloaded. ``tokenizer``: another file to find words and sentences with;
    ``pretokenized``: captions have words between spaces, and a sentence a line. Sentences above ``max_words`` words, or
    above 100,000 padded characters, are tagged in pieces, and words above 1,000 characters as unknown ones; with
    overlong="refuse" their captions are put aside ("long-sentence", "long-word"), as captions above 100,000 characters
    always are ("long-caption"). A tag that the model does not know is an error ("unknown-tag"). One value for each
    caption.
    Six digits. Neighbours in a batch change nothing, but where two tags are as likely to 1e-5.
    Source: Stanza's POSProcessor.
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
            raise ValueError(f"pos: {odd[0]!r} is none of {', '.join(UPOS)}; for the model's own give tags='xpos'")

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the number, or the share, for each caption."""
        found = self.counted(outputs, self.tags, names_in(self.tag))
        if self.measure == "count":
            return bare([number for number, _ in found])
        if any(not words for _, words in found):
            raise ScoreError("empty-caption", "it has no words to have a share of")
        return bare([round(number / words, 6) for number, words in found])
