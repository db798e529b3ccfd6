"""Named entities in a caption."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..base import Value, bare
from .model_score import Output
from .tagging.named_entities import NamedEntities
from .tagging.tagger import Tagger
from .tagging.tagging_score import TagScore, names_in

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class Entities(TagScore):
    """Number of named entities in a caption, by Stanza: all, or those of a type.

    ``type``: one that the model knows ("PERSON", of models trained on CoNLL "PER"; several as "PERSON;ORG"), "" for all; one
    that it does not know is an error ("unknown-tag"). An entity counts once, however many words it has.
    ``model``: a folder as ``stanza.download(model_dir=...)`` leaves it, or the recogniser's file; the folder's ``package``
    of the language ``lang`` is taken. Nothing is downloaded. ``tokenizer``: another file to find words and sentences with;
    ``pretokenized``: captions have words between spaces, and a sentence a line. Sentences above ``max_words`` words, or
    above 100,000 padded characters, are looked at in pieces, and words above 1,000 characters as unknown ones; with
    overlong="refuse" their captions are put aside ("long-sentence", "long-word"), as captions above 100,000 characters
    always are ("long-caption"). One value for each caption.
    Neighbours in a batch change nothing, but where two readings are as likely to 1e-5. Source: Stanza's NERProcessor.
    """

    name: ClassVar[str] = "entities"
    asks: ClassVar[type[Tagger]] = NamedEntities

    type: str = ""

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the number for each caption."""
        return bare([number for number, _ in self.counted(outputs, "entity", names_in(self.type))])
