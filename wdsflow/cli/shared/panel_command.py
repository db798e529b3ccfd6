"""A click command whose help groups options, and whose errors show the correct command."""

from collections.abc import Mapping, Sequence

import click

from wdsflow.text.options import OTHER, PANELS
from wdsflow.text.shell import command

from .misplaced_options import refuse_misplaced
from .option_parameters import REQUIRED, DescribedArgument

# Usage text for the arguments after -- of commands that run another program.
AFTER_DASHES = {"validate": "[-- ARGS...]", "train": "-- ARGS..."}


class PanelCommand(click.Command):
    """A command whose help groups its options."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the pieces of the usage line, with the arguments after ``--``."""
        pieces = super().collect_usage_pieces(ctx)
        after_dashes = AFTER_DASHES.get(str(ctx.info_name))
        return [*pieces, after_dashes] if after_dashes else pieces

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are given twice, and report everything that is missing.

        Of two values, click would silently ignore the first.
        """
        parameters = self.get_params(ctx)
        refuse_misplaced(parameters, ctx, args)
        try:
            values, arguments, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.NoSuchOption as error:
            _suggest(error, parameters, ctx)
            raise
        if ctx.info_name == "train":
            _refuse_shards_of_train(arguments, ctx, args)
        _refuse_repeated(order, ctx)
        asks_for_help = any(parameter.is_eager for parameter in order)
        if not ctx.resilient_parsing and not asks_for_help:
            _refuse_missing(parameters, ctx, values)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, and then each panel that has options."""
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, DescribedArgument):
                panels["Arguments"].append((parameter.make_metavar(ctx), parameter.description))
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                panels[getattr(parameter, "panel", OTHER)].append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _suggest(
    error: click.NoSuchOption, parameters: Sequence[click.Parameter], ctx: click.Context
) -> None:
    """Raise UsageError with the option that has this name in Python, such as --from for --table."""
    name = error.option_name.lstrip("-").replace("-", "_")
    for parameter in parameters:
        if parameter.name == name and isinstance(parameter, click.Option):
            ctx.fail(
                f"no such option: {error.option_name}; did you mean {_longest_flag(parameter)}?"
            )


def _refuse_shards_of_train(
    arguments: Sequence[str], ctx: click.Context, args: Sequence[str]
) -> None:
    """Raise UsageError if shards were given to ``train`` as arguments.

    The error shows the corrected command.
    """
    after_dashes: Sequence[str] = ctx.obj or ()
    if not arguments or any(word.startswith("--train-data") for word in after_dashes):
        return
    problem = "shards are named after --, by --train-data"
    if len(arguments) > 1:
        ctx.fail(f"{problem}; put a pattern in quotes, or the shell expands its braces")
    options = [word for word in args if word not in arguments]
    words = ["wdsflow", "train", *options, "--", "--train-data", arguments[0], *after_dashes]
    ctx.fail(f"{problem}\n  {command(words)}")


def _refuse_repeated(order: Sequence[click.Parameter], ctx: click.Context) -> None:
    """Raise UsageError if an option with one value is given twice.

    ``order``: the parameters as they were given.
    """
    seen: set[int] = set()
    for parameter in order:
        if not isinstance(parameter, click.Option) or parameter.multiple or parameter.is_flag:
            continue
        if id(parameter) in seen:
            ctx.fail(
                f"{_longest_flag(parameter)} is given twice, and can have one value: leave one of them out"
            )
        seen.add(id(parameter))


def _refuse_missing(
    parameters: Sequence[click.Parameter], ctx: click.Context, values: Mapping[str, object]
) -> None:
    """Raise UsageError with all required arguments and options that were not given.

    click would name only the first one.
    """
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
    if isinstance(parameter, DescribedArgument):
        names, description = parameter.make_metavar(ctx), parameter.description
    else:
        record = parameter.get_help_record(ctx)
        names, description = record if record is not None else (parameter.opts[0], "")
    return f"  {names}: {description.removesuffix(REQUIRED)}"


def _longest_flag(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len)
