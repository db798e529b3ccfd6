"""Commands of the command line, made from functions: their options are fields of the dataclasses that they take."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import click

from wdsflow.text.options import OTHER, PANELS, Option
from wdsflow.text.shell import command

from .typed import Typed

T = TypeVar("T")

# Usage text for the arguments after -- of commands that run another program.
AFTER_DASHES = {"validate": "[-- ARGS...]", "train": "-- ARGS..."}
# Similarity of a mistyped option of open_clip_train.
_SURE = 0.75
_TYPES: dict[object, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, bool: click.BOOL, str: click.STRING}


class Given(dict[str, object], Generic[T]):
    """The fields of a dataclass that were given on the command line, with their values."""


class But:
    """Marks a parameter of a command: fields that are not options, and fields with another help.

    Such as ``Annotated[RunOptions, But("device", jobs="Number of processes.")]``.
    """

    def __init__(self, *left_out: str, **help: str) -> None:  # noqa: A002 - named as in click
        self.left_out, self.help = left_out, help


class Only(But):
    """Marks a parameter of a command: the fields that are its options."""


class _Taken(NamedTuple):
    """A parameter of a command."""

    make: Callable[..., object]
    options: dict[str, tuple["Field[object]", Option]]


def command_of(name: str, function: Callable[..., None], run: Callable[..., None]) -> click.Command:
    """Return a command that parses the options of a function.

    Args:
        name: of the command.
        function: takes a ``Typed``, and then dataclasses, or ``Given`` of one.
        run: called with a ``Typed``, and a function that returns the arguments for the dataclasses.
    """
    taken = [_taken(each.annotation) for each in [*inspect.signature(function).parameters.values()][1:]]

    def callback(**_: object) -> None:
        context = click.get_current_context()
        typed = Typed(context)
        run(typed, lambda: [_made(each, typed, context) for each in taken])

    parameters = [_parameter(*each) for part in taken for each in part.options.values()]
    return PanelCommand(name, params=parameters, callback=callback, help=function.__doc__)


def _taken(annotation: object) -> _Taken:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    make, of = (Given, get_args(kind)[0]) if get_origin(kind) is Given else (kind, kind)
    found = {each.name: (each, each.metadata["option"]) for each in fields(of) if "option" in each.metadata}
    for mark in marks:
        kept = [name for name in found if (name in mark.left_out) == isinstance(mark, Only)]
        found = {name: found[name] for name in kept}
        for name, text in mark.help.items():
            found[name] = (found[name][0], replace(found[name][1], help=text))
    return _Taken(make, found)


def _made(taken: _Taken, typed: Typed, context: click.Context) -> object:
    values: dict[str, object] = {}
    for name, (field, about) in taken.options.items():
        if name in typed.given:
            value = typed.given[name]
            try:
                values[name] = about.parse(value) if about.parse else tuple(value) if _several(field) else value
            except ValueError as error:
                parameter = next(each for each in context.command.params if each.name == name)
                raise click.BadParameter(str(error), context, parameter) from None
        elif field.default is MISSING:
            # An optional argument.
            values[name] = None
    return taken.make(**values)


def _alternatives(kind: object) -> list[object]:
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [each for each in parts if each is not NoneType]


def _several(field: "Field[object]") -> bool:
    kinds = _alternatives(field.type)
    return str not in kinds and any(get_origin(each) not in (None, Literal) for each in kinds)


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _parameter(field: "Field[object]", about: Option) -> click.Parameter:
    several, kinds = _several(field), _alternatives(field.type)
    kind = kinds[0] if not several else get_args(kinds[0])[0]
    if (about.parse and not several) or str in kinds:
        kind = str
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    type_: click.ParamType[Any] = click.Choice(choices) if choices else _TYPES.get(kind, click.STRING)
    if kind is Path:
        type_ = click.types.FuncParamType(Path)
    if about.least is not None or about.most is not None:
        least, most = about.least, about.most
        type_ = click.FloatRange(least, most) if kind is float else click.IntRange(_whole(least), _whole(most))
        type_.name = kind.__name__ if kind is float else "integer"
    is_required = field.default is MISSING and NoneType not in get_args(field.type)
    if about.positional:
        return _Argument(field.name, about, type_, required=is_required, nargs=-1 if several else 1)
    flags = about.flags or (f"--{field.name.replace('_', '-')}",)
    default: dict[str, Any] = {} if is_required else {"default": field.default}
    made = click.Option(
        [*flags, field.name],
        type=None if kind is bool else type_,
        is_flag=kind is bool,
        multiple=several,
        required=is_required,
        show_default=field.default not in (MISSING, None, "", ()),
        help=about.help,
        metavar=about.metavar or (f"<{'|'.join(choices)}>" if choices else None),
        **default,
    )
    made.panel = about.panel  # type: ignore[attr-defined]
    return made


class _Argument(click.Argument):
    """An argument with a help text."""

    def __init__(self, name: str, about: Option, kind: click.ParamType[Any], *, required: bool, nargs: int) -> None:
        super().__init__([name], type=kind, required=required, nargs=nargs, metavar=about.metavar)
        self.about = f"{about.help}  [required]" if required else about.help

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        shown = self.make_metavar(ctx)
        return [shown if self.required or shown.startswith("[") else f"[{shown}]"]


class PanelCommand(click.Command):
    """A command whose help groups its options."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the pieces of the usage line, with the arguments after ``--``."""
        after = AFTER_DASHES.get(str(ctx.info_name))
        return [*super().collect_usage_pieces(ctx), *([after] if after else [])]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option that is given twice, whose first value click would silently ignore, and report all that is missing."""
        _check_dashes(self.get_params(ctx), ctx, args)
        once = {id(each) for each in self.get_params(ctx) if _takes_one_value(each)}
        try:
            values, loose, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.NoSuchOption as error:
            _suggest(error, self.get_params(ctx), ctx)
            raise
        if ctx.info_name == "train" and loose and not any(word.startswith("--train-data") for word in ctx.obj or ()):
            own = [word for word in args if word not in loose]
            words = command(["wdsflow", "train", *own, "--", "--train-data", loose[0], *(ctx.obj or ())])
            several = "" if len(loose) == 1 else "; put a pattern in quotes, or the shell expands its braces"
            ctx.fail(f"shards are named after --, by --train-data{several}" + ("" if several else f"\n  {words}"))
        for parameter in order:
            if id(parameter) in once:
                once.remove(id(parameter))
            elif _takes_one_value(parameter):
                ctx.fail(
                    f"{max(parameter.opts, key=len)} is given twice, and can have one value: leave one of them out"
                )
        asks_for_help = any(parameter.is_eager for parameter in order)
        if not ctx.resilient_parsing and not asks_for_help:
            _refuse_missing(self.get_params(ctx), ctx, values)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, and then each panel that has options."""
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        for each in self.get_params(ctx):
            if isinstance(each, _Argument):
                panels["Arguments"].append((each.make_metavar(ctx), each.about))
            elif record := each.get_help_record(ctx):
                panels[getattr(each, "panel", OTHER)].append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _takes_one_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_flag)


def _suggest(error: click.NoSuchOption, parameters: list[click.Parameter], ctx: click.Context) -> None:
    """Raise UsageError with the option that has this name in Python, such as --from for --table."""
    name = error.option_name.lstrip("-").replace("-", "_")
    for parameter in parameters:
        if parameter.name == name and isinstance(parameter, click.Option):
            ctx.fail(f"no such option: {error.option_name}; did you mean {max(parameter.opts, key=len)}?")


def _refuse_missing(parameters: list[click.Parameter], ctx: click.Context, values: Mapping[str, object]) -> None:
    """Raise UsageError with all required arguments and options that were not given; click would name the first one."""
    lines = []
    for parameter in parameters:
        value = values.get(str(parameter.name))
        # Of one that is not given, there is nothing, an empty list, or a mark of click.
        is_given = isinstance(value, str) or (isinstance(value, list | tuple) and len(value) > 0)
        if parameter.required and not is_given:
            lines.append(_missing_line(parameter, ctx))
    if lines:
        ctx.fail("\n".join(["missing:", *lines]))


def _missing_line(parameter: click.Parameter, ctx: click.Context) -> str:
    """Return how a parameter is given, and what it means."""
    if isinstance(parameter, _Argument):
        return f"  {parameter.make_metavar(ctx)}: {parameter.about.removesuffix('  [required]')}"
    record = parameter.get_help_record(ctx)
    names, about = record if record is not None else (parameter.opts[0], "")
    return f"  {names}: {about.removesuffix('  [required]')}"


def _check_dashes(parameters: list[click.Parameter], ctx: click.Context, args: list[str]) -> None:
    """Refuse options of open_clip_train before ``--``, with the corrected command."""
    if ctx.info_name not in ("train", "validate"):
        return
    takes_value = {
        name: not each.is_flag for each in parameters if isinstance(each, click.Option) for name in each.opts
    }
    if all(word.partition("=")[0] in takes_value for word in args if word.startswith("--")):
        return
    from wdsflow.readers.open_clip.arguments import known_flags, nearest_flag

    flags = known_flags() - takes_value.keys()
    every = [*flags, *takes_value]
    typed = [name for word in args if (name := word.partition("=")[0]).startswith("--") and name not in takes_value]
    meant = {name: name if name in flags else nearest_flag(name, every, _SURE) for name in typed}
    own, after, target = list[str](), list[str](), list[str]()
    for word in args:
        name, equals, value = word.partition("=")
        theirs = meant.get(name) in flags
        target = after if theirs else own if name in takes_value or not target else target
        target.append(f"{meant[name]}{equals}{value}" if theirs else word)
        if target is own and (equals or not takes_value.get(name, False)):
            target = []
    if after:
        words = ["wdsflow", str(ctx.info_name), *own, "--", *after, *(ctx.obj or ())]
        wrong = next((name for name in typed if meant[name] in flags and meant[name] != name), "")
        right = f"{after[0].partition('=')[0]} is an option of open_clip_train: put it after --"
        problem = f"no such option: {wrong}; did you mean {meant[wrong]}, after --?" if wrong else right
        ctx.fail(f"{problem}\n  {command(words)}")
