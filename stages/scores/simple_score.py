"""Scores that are a function of one image, caption or video."""

from collections.abc import Callable
from dataclasses import dataclass

from .base import FieldScore, HeaderScore, Kind, PixelScore, Scalar, Score, TextScore, VideoScore

# Annotation of the argument -> the class that passes such values.
_BASES: dict[str, type[Score]] = {
    "ImageHeader": HeaderScore,
    "ImageField": FieldScore,
    "Picture": PixelScore,
    "VideoFacts": VideoScore,
    "str": TextScore,
}
# Annotation of the result; all others are numbers.
_KINDS: dict[str, Kind] = {"bool": "boolean", "str": "text"}


def simple_score(
    name: str = "", /, **facts: object
) -> Callable[[Callable[..., Scalar]], type[Score]]:
    """Return a decorator that makes a score from a function of one image, caption or video.

    The annotation of the argument selects the input: ``ImageHeader``, ``ImageField``, ``Picture``,
    ``str`` (a caption), ``VideoFacts``; that of the result the kind of value. Keyword arguments are
    settings. ``facts``: class attributes of ``Score``. The docstring is the manual page.
    """

    def score_of(function: Callable[..., Scalar]) -> type[Score]:
        annotations = dict(function.__annotations__)
        settings = function.__kwdefaults__ or {}
        input_type = next(iter(annotations.values())).__name__
        value_type = annotations["return"].__name__

        def with_settings(self: Score, *inputs: object) -> Scalar:
            values = {setting: getattr(self, setting) for setting in settings}
            return function(*inputs, **values)

        body = {
            "of": with_settings if settings else staticmethod(function),
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__annotations__": {setting: annotations[setting] for setting in settings},
            **settings,
        }
        class_facts = {
            "name": name or function.__name__,
            "kind": _KINDS.get(value_type, "number"),
            **facts,
        }
        score = type(function.__name__, (_BASES[input_type],), body, **class_facts)
        if not settings:
            return score
        return dataclass(frozen=True, kw_only=True)(score)

    return score_of
