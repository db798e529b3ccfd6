"""Commands as they are typed: help in panels, and suggestions for what is misspelt."""

import os
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from wdsflow.shards.atomic import create, discard
from wdsflow.shards.urls import compact
from wdsflow.text.shell import command, quote, quote_path

MAIN = "Main options"
SAMPLES = "Samples"
OUTPUT = "Output"
LINES = "JSON lines"
CHECKS = "Checks and reports"
MACHINES = "Processes, memory and machines"
OTHER = "Other options"
PANELS = (MAIN, SAMPLES, OUTPUT, LINES, CHECKS, MACHINES, OTHER)  # in this order


# What the commands that run another program take after --, as their usage shows it.
AFTER_DASHES = {"validate": "[-- ARGS...]", "train": "-- ARGS...", "bisect": "-- COMMAND..."}

_SURE = 0.75  # similarity of a mistyped option of open_clip_train


class PanelHelp(TyperCommand):
    """A command whose help groups options by their ``rich_help_panel``; those without one are main options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line, with what follows ``--``."""
        after = AFTER_DASHES.get(str(ctx.info_name))
        return [*super().collect_usage_pieces(ctx), *([after] if after else [])]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option with two values: of two predicates the first would be dropped silently."""
        self._check_dashes(ctx, args)
        once = {id(each) for each in self.get_params(ctx) if _takes_one_value(each)}
        _, loose, order = self.make_parser(ctx).parse_args(args=list(args))
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
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's, before a sentence of its caller
            raise

    def _check_dashes(self, ctx: Any, args: list[str]) -> None:
        """Refuse options of open_clip_train before ``--``, with the command in which they follow it."""
        if ctx.info_name not in ("train", "validate"):
            return
        takes_value = {
            name: not getattr(each, "is_flag", False)
            for each in self.get_params(ctx)
            if each.param_type_name == "option"
            for name in each.opts
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
            words = ["wdsflow", ctx.info_name, *own, "--", *after, *(ctx.obj or ())]
            wrong = next((name for name in typed if meant[name] in flags and meant[name] != name), "")
            right = f"{after[0].partition('=')[0]} is an option of open_clip_train: put it after --"
            told = f"no such option: {wrong}; did you mean {meant[wrong]}, after --?" if wrong else right
            ctx.fail(f"{told}\n  {command(words)}")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then each panel that has options."""
        arguments: list[tuple[str, str]] = []
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in PANELS}
        for each in self.get_params(ctx):
            parameter: Any = each
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append((parameter.metavar or record[0], record[1]))
            else:
                default = OTHER if parameter.name == "help" else MAIN
                panels[getattr(parameter, "rich_help_panel", None) or default].append(record)
        for title, records in {"Arguments": arguments, **panels}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _takes_one_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)


_LONGEST = 50  # characters of an invented name


class Typed:
    """A typed command; ``again`` spells it as a command to paste."""

    def __init__(self, context: typer.Context) -> None:
        self._parameters: list[Any] = list(context.command.params)
        self.name = str(context.info_name)
        self._training: list[str] | None = context.obj  # what was typed after --
        self.given: dict[str, Any] = {
            name: value for name, value in context.params.items() if _was_typed(context, name) and value is not None
        }

    def again(self, **changed: Any) -> str:
        """Return the command with some parameters changed, by their names in Python; None leaves one out."""
        values = {**self.given, **changed}
        words = ["wdsflow", self.name]
        for parameter in self._parameters:
            if (value := values.get(parameter.name)) is not None:
                words += _words(parameter, value)
        return " ".join([*words, *(["--", *map(quote, self._training)] if self._training is not None else [])])

    def options(self) -> set[str]:
        """Return the options that the command has, as they are spelt."""
        return {word for each in self._parameters if each.param_type_name == "option" for word in each.opts}

    def words(self, *names: str) -> str:
        """Return some of the parameters as they are spelt, by their names in Python; "" if none was given."""
        chosen = [each for each in self._parameters if each.name in names and each.name in self.given]
        return "".join(f" {word}" for each in chosen for word in _words(each, self.given[each.name]))

    def look(self, command: str, *urls: str, **options: object) -> str:
        """Return another command for the same shards, as ``spell``; it may run ``pipe:`` urls if this one may."""
        return self.spell(command, *urls, **options) + (" --allow-pipe" if self.given.get("allow_pipe") else "")

    @staticmethod
    def spell(command: str, *urls: str, **options: object) -> str:
        """Return another command, with options by their names; None leaves one out.

        >>> Typed.spell("score", "in/{0..3}.tar", out="scored", scores="min_side")
        "wdsflow score 'in/{0..3}.tar' -o scored --scores min_side"
        """
        words = ["wdsflow", command, *map(quote_path, compact(urls))]
        for name, value in options.items():
            if value is not None:
                words += ["-o" if name == "out" else f"--{name.replace('_', '-')}", quote_path(str(value))]
        return " ".join(words)


def _was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _words(parameter: Any, value: Any) -> list[str]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if parameter.param_type_name == "argument":
        return [quote_path(each) for each in compact([str(each) for each in values])]
    option = min(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return [option] if value else parameter.secondary_opts[:1]
    return [word for each in values for word in (option, quote_path(_text(each)))]


def _text(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def free(path: Path) -> Path:
    """Return a path that does not exist and can be created: this one, numbered if needed, or its name elsewhere.

    >>> free(Path("/proc/none/kept")).name
    'kept'
    """
    path = path if path.name else Path("out")  # "." and "/"
    name = path.name[:_LONGEST]
    places = [path.with_name(name), Path(name), Path(tempfile.gettempdir()) / name]
    found = path = next((place for place in places if _can_be_made(place)), path)
    number = 2
    while os.path.lexists(found):
        found, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return found


def _can_be_made(path: Path) -> bool:
    parent = next(each for each in path.absolute().parents if os.path.lexists(each))
    try:  # os.access says of root, and of /proc, that they may
        discard(*create(parent / path.name))
    except OSError:
        return False
    return True
