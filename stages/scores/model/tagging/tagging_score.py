"""What scores of tags have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ...base import ScoreError, Subject
from ..model_score import Model, ModelScore, Output, Request
from ..models.clip.clip_weights import local_path
from .sentences import Overlong
from .tagger import TagCounts, Tagger

if TYPE_CHECKING:
    from ...sample_view import View

_FILES = ("model", "tokenizer")


@dataclass(frozen=True, kw_only=True)
class TagScore(ModelScore):
    """A score of what Stanza says of a caption's words; for its settings see ``Tagger``."""

    subject: ClassVar[Subject] = "caption"
    low: ClassVar[float | None] = 0
    needs: ClassVar[tuple[str, ...]] = ("stanza",)
    packages: ClassVar[tuple[str, ...]] = ("stanza", "torch")
    asks: ClassVar[type[Tagger]]

    model: str = ""
    lang: str = "en"
    package: str = "default"
    tokenizer: str = ""
    pretokenized: bool = False
    max_words: int = 1_000
    overlong: Overlong = "split"
    caption: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError(f"{self.name} needs model='FOLDER' of Stanza's models, or a file of one")
        if not 1 <= self.max_words <= self.asks.budget.words:
            raise ValueError(f"{self.name}: max_words={self.max_words} is not from 1 to {self.asks.budget.words:,}")
        for name in _FILES:
            local_path(getattr(self, name))

    def _model(self) -> Tagger:
        return self.asks(
            model=self.model,
            lang=self.lang,
            package=self.package,
            tokenizer=self.tokenizer,
            pretokenized=self.pretokenized,
            max_words=self.max_words,
            overlong=self.overlong,
        )

    def models(self) -> tuple[Model, ...]:
        """Return the tagger."""
        return (self._model(),)

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each caption."""
        model = self._model()
        return [Request(model, text, partial(str, text)) for text in view.captions(self.caption)]

    def settings(self) -> dict[str, Any]:
        """Return the settings but where files lie: their contents are part of the model's identity."""
        return {name: value for name, value in super().settings().items() if name not in _FILES}

    def counted(self, outputs: Sequence[Output], tag_set: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
        """Return, for each caption, how many of the tags it has, of any where none are wanted; and how many words.

        Raises ScoreError if a caption is quarantined ("long-sentence", "long-word", "long-caption"), or if the model
        has no such tag ("unknown-tag").
        """
        found = []
        for counts in outputs:
            assert isinstance(counts, TagCounts)
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
