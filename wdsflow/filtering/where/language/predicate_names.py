"""Names of a predicate: scores with their settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast, get_args

from .functions import FUNCTIONS, OVER_ENTRIES
from .tokens import WhereError, nearest
from .values import Call, Kind, ScoreType, Setting, spelled


class PredicateNames:
    """The scores that a predicate may name."""

    def __init__(self, text: str, scores: Mapping[str, ScoreType]) -> None:
        self._text = text
        self._scores = scores

    def is_score(self, name: str) -> bool:
        """Return whether a score has this name."""
        return name in self._scores

    def kind(self, name: str) -> Kind:
        """Return the kind of a score's values."""
        kind = self._scores[name].kind
        if kind not in get_args(Kind):
            raise TypeError(f"score {name!r} has kind {kind!r}")
        return cast("Kind", kind)

    def tier(self, name: str) -> str:
        """Return the tier of a score."""
        return self._scores[name].tier

    def unknown(self, name: str, start: int, end: int) -> WhereError:
        """Return the error about a name that is not a score."""
        close = nearest(name, self._scores) or nearest(name, [*FUNCTIONS, *OVER_ENTRIES])
        if close in FUNCTIONS or close in OVER_ENTRIES:
            hint = f"{close} is a function: write {close}(...)"
        elif name.lower() in {"like", "ilike", "rlike", "regexp", "glob"}:
            hint = "write contains(caption, 'cat'), startswith(...), or matches(caption, 'regular expression')"
        else:
            hint = f"did you mean {close}?" if close else "all scores: wdsflow scores"
        return WhereError(self._text, start, end, f"no score is called {name[:60]!r}", hint)

    def call(self, name: str, settings: Mapping[str, tuple[Setting, int, int]], start: int, end: int) -> Call:
        """Return a score with settings. Raises WhereError."""
        score: Any = self._scores[name]
        if not dataclasses.is_dataclass(score):
            return Call(name, tuple(sorted((key, value[0]) for key, value in settings.items())))
        fields = {field.name: field for field in dataclasses.fields(score) if field.init}
        for key, (_, begin, stop) in settings.items():
            if key not in fields:
                close = nearest(key, fields)
                known = f"did you mean {close}?" if close else f"it has {', '.join(sorted(fields)) or 'no settings'}"
                raise WhereError(self._text, begin, stop, f"{name} has no setting {key[:60]!r}", known)
        missing = [key for key, field in fields.items() if _is_required(field) and key not in settings]
        if missing:
            raise WhereError(
                self._text, start, end, f"{name} needs its {missing[0]}", f"write {name}({missing[0]}=...)"
            )
        for key, (value, begin, stop) in settings.items():
            fits, wanted = _fits(value, fields[key])
            if not fits:
                raise WhereError(self._text, begin, stop, f"{key} of {name} is {wanted}, not {spelled(value)[:60]}")
        if isinstance(score, type):
            try:
                score(**{key: value[0] for key, value in settings.items()})
            except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                detail = str(error)
                prefix = "" if detail.startswith(name) else f"{name}: "
                raise WhereError(self._text, start, end, prefix + detail) from None
        return Call(name, tuple(sorted((key, value[0]) for key, value in settings.items())))

    def argument(self, name: str) -> str:
        """Return the setting that may be given without its name, or an empty text."""
        return str(getattr(self._scores[name], "argument", ""))


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _fits(value: Setting, field: "dataclasses.Field[Any]") -> tuple[bool, str]:
    """Return whether a value is of a setting's kind, and what that kind is called. The score itself checks other kinds."""
    default = field.default
    kind = getattr(field.type, "__name__", field.type) if default is dataclasses.MISSING else type(default).__name__
    if kind == "bool":
        return isinstance(value, bool), "true or false"
    if kind in {"int", "float"}:
        return isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
    if kind == "str":
        return isinstance(value, str), "a text"
    return True, ""
