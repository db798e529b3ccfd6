"""Commands of the command line, made from functions.

The options of a command are the fields of the dataclasses that its function takes.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, replace
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import click

from wdsflow.text.options import Option

from .option_parameters import parameter_of, takes_several
from .panel_command import PanelCommand
from .typed import Typed

T = TypeVar("T")


class GivenFields(dict[str, object], Generic[T]):
    """The fields of a dataclass that were given on the command line, with their values."""


class But:
    """Marks a parameter of a command: fields that are not options, and fields with another help.

    Such as ``Annotated[RunOptions, But("device", jobs="Number of processes.")]``.
    """

    def __init__(self, *left_out: str, **help: str) -> None:  # noqa: A002 - named as in click
        self.left_out = left_out
        self.help = help


class _Argument(NamedTuple):
    """An argument of a command's function.

    Attributes:
        make: a dataclass, or ``GivenFields``; called with the values of the options by name.
        options: the fields that are options, by name.
    """

    make: Callable[..., object]
    options: dict[str, tuple["Field[object]", Option]]


def command_of(name: str, function: Callable[..., None], run: Callable[..., None]) -> click.Command:
    """Return a command that parses the options of a function.

    Args:
        name: of the command.
        function: takes a ``Typed``, and then dataclasses, or ``GivenFields`` of one.
        run: called with a ``Typed``, and a function that returns the arguments for the dataclasses.
    """
    _, *parameters = inspect.signature(function).parameters.values()
    arguments = [_argument_of(parameter.annotation) for parameter in parameters]

    def callback(**_: object) -> None:
        context = click.get_current_context()
        typed = Typed(context)
        run(typed, lambda: [_value_of(argument, typed, context) for argument in arguments])

    options = [
        parameter_of(*option) for argument in arguments for option in argument.options.values()
    ]
    return PanelCommand(name, params=options, callback=callback, help=function.__doc__)


def _argument_of(annotation: Any) -> _Argument:
    """Read the annotation of a parameter.

    It is a dataclass, ``GivenFields`` of one, or one of these with ``But``.
    """
    changes: list[But] = []
    if get_origin(annotation) is Annotated:
        annotation, *changes = get_args(annotation)
    make = dataclass = annotation
    if get_origin(annotation) is GivenFields:
        make = GivenFields
        (dataclass,) = get_args(annotation)
    options = {
        field.name: (field, field.metadata["option"])
        for field in fields(dataclass)
        if "option" in field.metadata
    }
    for change in changes:
        for name in change.left_out:
            options.pop(name, None)
        for name, text in change.help.items():
            field, option = options[name]
            options[name] = field, replace(option, help=text)
    return _Argument(make, options)


def _value_of(argument: _Argument, typed: Typed, context: click.Context) -> object:
    """Return the argument, made from the options that were given. Raises BadParameter."""
    values: dict[str, object] = {}
    for name, (field, option) in argument.options.items():
        if name in typed.given:
            try:
                values[name] = _parsed(typed.given[name], field, option)
            except ValueError as error:
                (parameter,) = [
                    parameter for parameter in context.command.params if parameter.name == name
                ]
                raise click.BadParameter(str(error), context, parameter) from None
        elif field.default is MISSING:
            # An optional argument.
            values[name] = None
    return argument.make(**values)


def _parsed(value: Any, field: "Field[object]", option: Option) -> object:
    if option.parse is not None:
        return option.parse(value)
    return tuple(value) if takes_several(field) else value
