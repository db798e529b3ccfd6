"""Parameters of click, made from fields of dataclasses."""

from dataclasses import MISSING, Field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click

from wdsflow.text.options import Option

REQUIRED = "  [required]"
_TYPES: dict[object, click.ParamType[Any]] = {
    int: click.INT,
    float: click.FLOAT,
    bool: click.BOOL,
    str: click.STRING,
    Path: click.types.FuncParamType(Path),
}


def takes_several(field: "Field[object]") -> bool:
    """Return whether an option may be given several times: its field is a sequence."""
    kinds = _alternatives(field.type)
    return str not in kinds and any(get_origin(kind) not in (None, Literal) for kind in kinds)


def parameter_of(field: "Field[object]", option: Option) -> click.Parameter:
    """Return the option, or the argument, of a command."""
    several = takes_several(field)
    kind = _kind(field, option)
    type_ = _type(kind, option)
    is_required = field.default is MISSING and NoneType not in get_args(field.type)
    if option.positional:
        return DescribedArgument(
            field.name, option, type_, required=is_required, nargs=-1 if several else 1
        )
    flags = option.flags or (f"--{field.name.replace('_', '-')}",)
    choices = _choices(kind)
    default: dict[str, Any] = {} if is_required else {"default": field.default}
    parameter = click.Option(
        [*flags, field.name],
        type=None if kind is bool else type_,
        is_flag=kind is bool,
        multiple=several,
        required=is_required,
        show_default=field.default not in (MISSING, None, "", ()),
        help=option.help,
        metavar=option.metavar or (f"<{'|'.join(choices)}>" if choices else None),
        **default,
    )
    parameter.panel = option.panel  # type: ignore[attr-defined]
    return parameter


class DescribedArgument(click.Argument):
    """An argument with a help text, which click has for options only."""

    def __init__(
        self, name: str, option: Option, kind: click.ParamType[Any], *, required: bool, nargs: int
    ) -> None:
        super().__init__([name], type=kind, required=required, nargs=nargs, metavar=option.metavar)
        self.description = option.help + REQUIRED if required else option.help

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return its name, in brackets if it is optional."""
        metavar = self.make_metavar(ctx)
        if self.required or metavar.startswith("["):
            return [metavar]
        return [f"[{metavar}]"]


def _alternatives(kind: object) -> list[object]:
    """Return the types that a union joins, without None."""
    types = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [alternative for alternative in types if alternative is not NoneType]


def _kind(field: "Field[object]", option: Option) -> object:
    """Return the type of one value as it is typed."""
    kinds = _alternatives(field.type)
    if takes_several(field):
        return get_args(kinds[0])[0]
    if option.parse is not None or str in kinds:
        return str
    return kinds[0]


def _choices(kind: object) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _type(kind: object, option: Option) -> click.ParamType[Any]:
    choices = _choices(kind)
    if choices:
        return click.Choice(choices)
    if option.least is None and option.most is None:
        return _TYPES.get(kind, click.STRING)
    limited: click.ParamType[Any]
    if kind is float:
        limited = click.FloatRange(option.least, option.most)
        limited.name = "float"
    else:
        limited = click.IntRange(_integer(option.least), _integer(option.most))
        limited.name = "integer"
    return limited


def _integer(number: float | None) -> int | None:
    return None if number is None else int(number)
