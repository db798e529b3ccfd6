"""The settings of a score in an expression: ``near_duplicate(distance=4)``."""

import ast
import dataclasses
from collections.abc import Callable, Mapping

from .errors import nearest
from .score_call import ScoreType, Setting, spelled
from .syntax import ExpressionText
from .tree import Span

# Reads a constant, or raises ExpressionError; the text names what is needed.
ReadConstant = Callable[[ast.expr, str], Setting]


def settings_of(
    source: ExpressionText, call: ast.Call, name: str, score: ScoreType, read_constant: ReadConstant
) -> dict[str, Setting]:
    """Return the settings of a call by name.

    Raises ExpressionError if the score does not take them.
    """
    spans: dict[str, Span] = {}
    settings: dict[str, Setting] = {}
    for number, (setting, value, span) in enumerate(_arguments(source, call, name, score)):
        if setting in settings:
            raise source.error(span, f"the setting {setting!r} is given twice")
        settings[setting] = _value(source, value, read_constant)
        spans[setting] = span if number or call.keywords else source.span(value)
    if dataclasses.is_dataclass(score):
        check_settings(source, name, score, settings, spans, source.span(call))
    return settings


def _arguments(
    source: ExpressionText, call: ast.Call, name: str, score: ScoreType
) -> list[tuple[str, ast.expr, Span]]:
    """Return name, value and position of each setting."""
    arguments: list[tuple[str, ast.expr, Span]] = []
    bare = str(getattr(score, "argument", ""))
    for value in call.args:
        span = source.span(value)
        if (
            isinstance(value, ast.Compare)
            and isinstance(value.ops[0], ast.Eq)
            and isinstance(value.left, ast.Name)
        ):
            raise source.error(
                span, "a setting is written with one =", f"write {name}({value.left.id}=...)"
            )
        if not bare or arguments:
            raise source.error(span, "a setting has a name", f"write {name}(setting=value)")
        arguments.append((bare, value, span))
    for keyword in call.keywords:
        span = source.span(keyword)
        if keyword.arg is None:
            raise source.error(span, "** is not supported", f"write {name}(setting=value)")
        arguments.append((keyword.arg, keyword.value, span))
    return arguments


def _value(source: ExpressionText, value: ast.expr, read_constant: ReadConstant) -> Setting:
    """Return a constant, or a tuple of constants."""
    if not isinstance(value, (ast.Tuple, ast.List)):
        return read_constant(value, "a value of the setting")
    if not value.elts:
        raise source.error(source.span(value), "an empty list", "write for example ('a', 'b')")
    constants = [read_constant(item, "a list of constants") for item in value.elts]
    return tuple(constant for constant in constants if not isinstance(constant, tuple))


def check_settings(
    source: ExpressionText,
    name: str,
    score: object,
    settings: Mapping[str, Setting],
    spans: Mapping[str, Span],
    span: Span,
) -> None:
    """Raise ExpressionError if a score, a dataclass, does not take these settings.

    ``span``: the position of the score.
    """
    assert dataclasses.is_dataclass(score)
    fields = {field.name: field for field in dataclasses.fields(score) if field.init}
    for setting in settings:
        if setting not in fields:
            close = nearest(setting, fields)
            hint = f"it has {', '.join(sorted(fields)) or 'no settings'}"
            if close:
                hint = f"did you mean {close}?"
            raise source.error(spans[setting], f"{name} has no setting {setting[:60]!r}", hint)
    for setting, field in fields.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and setting not in settings:
            raise source.error(span, f"{name} needs its {setting}", f"write {name}({setting}=...)")
    for setting, value in settings.items():
        required_type = _type_mismatch(value, fields[setting])
        if required_type:
            detail = f"{setting} of {name} is {required_type}, not {spelled(value)[:60]}"
            raise source.error(spans[setting], detail)
    if isinstance(score, type):
        _check_by_the_score(source, name, score, settings, span)


def _type_mismatch(value: Setting, field: "dataclasses.Field[object]") -> str:
    """Return the required type if a value has another one; "" otherwise.

    The score itself checks types other than booleans, numbers and texts.
    """
    if field.default is dataclasses.MISSING:
        required = getattr(field.type, "__name__", field.type)
    else:
        required = type(field.default).__name__
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if required == "bool" and not isinstance(value, bool):
        return "True or False"
    if required in {"int", "float"} and not is_number:
        return "a number"
    if required == "str" and not isinstance(value, str):
        return "a text"
    return ""


def _check_by_the_score(
    source: ExpressionText, name: str, score: type, settings: Mapping[str, Setting], span: Span
) -> None:
    try:
        score(**settings)
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        detail = str(error)
        prefix = "" if detail.startswith(name) else f"{name}: "
        raise source.error(span, prefix + detail) from None
