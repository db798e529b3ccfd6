"""A command whose help has the options in named groups, as plain text: rich's help takes 0.2 s longer to import."""

from typing import Any

import typer
from typer.core import TyperCommand

from wdsflow.text.shell import command

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
