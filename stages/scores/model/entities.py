"""The number of named entities in a caption."""

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

    name: ClassVar[str] = "entities"
    asks: ClassVar[type[Tagger]] = NamedEntities

    type: str = ""

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the number for each caption."""
        return bare([number for number, _ in self.counted(outputs, "entity", names_in(self.type))])
