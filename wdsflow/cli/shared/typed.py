"""The typed command: its options, and its text with some of them changed."""

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from wdsflow.records.working_folder import remote_url
from wdsflow.shards.atomic import create_temporary, discard_temporary
from wdsflow.shards.written_names import compact_patterns
from wdsflow.text.shell import quote, quote_path

# Characters of a suggested name.
_LONGEST = 50
# Output folders that need not be named.
_USUAL_OUT = {"index": "index"}


class Typed:
    """A typed command; ``command_with`` spells it as a command to paste.

    Attributes:
        name: the command, such as "filter".
        after_dashes: the arguments after ``--``; None without ``--``.
        given: the options and arguments that were typed, by their names in Python.
    """

    def __init__(self, context: click.Context) -> None:
        self._parameters = context.command.params
        self.name = str(context.info_name)
        self.after_dashes: list[str] | None = context.obj
        self.given: dict[str, Any] = {}
        for name, value in context.params.items():
            is_typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
            if is_typed and value is not None:
                self.given[name] = list(value) if isinstance(value, tuple) else value

    @property
    def is_resumable(self) -> bool:
        """Whether the same command resumes an interrupted run."""
        return "--restart" in self.options()

    @property
    def is_filter(self) -> bool:
        """Whether the command computes scores, or decides by them."""
        return self.name in ("filter", "measure")

    @property
    def out(self) -> Any:
        """The output folder, or its url; "" if the command has none."""
        return self.given.get("out") or _USUAL_OUT.get(self.name, "")

    def command_with(self, **changed: Any) -> str:
        """Return the command with some parameters changed.

        They are given by their names in Python; None omits one.
        """
        values = {**self.given, **changed}
        words = ["wdsflow", self.name]
        for parameter in self._parameters:
            value = values.get(parameter.name)
            if value is not None:
                words += _words(parameter, value)
        if self.after_dashes is not None:
            words += ["--", *map(quote, self.after_dashes)]
        return " ".join(words)

    def command_with_other_output(self) -> str:
        """Return the command with another folder for its output."""
        return self.command_with(out=other_output(self.out or "out"), restart=None)

    def flag(self, name: str) -> str:
        """Return an option as it is typed, by its name in Python."""
        (parameter,) = [each for each in self._parameters if each.name == name]
        return min(parameter.opts, key=len)

    def options(self) -> set[str]:
        """Return the options of the command as flags, such as "--restart"."""
        flags: set[str] = set()
        for parameter in self._parameters:
            if parameter.param_type_name == "option":
                flags.update(parameter.opts)
        return flags

    def other_command(self, command: str, *urls: str, **options: object) -> str:
        """Return another command for the same shards, as ``spell_command`` does.

        It may run ``pipe:`` urls if this command may.
        """
        return self.spell_command(command, *urls, **options) + (
            " --allow-pipe" if self.given.get("allow_pipe") else ""
        )

    @staticmethod
    def spell_command(command: str, *urls: str, **options: object) -> str:
        """Return another command, with options given by their names.

        A list repeats an option, True is a flag, None omits the option.

        >>> Typed.spell_command("measure", "in/{0..3}.tar", out="scored", scores="min_side")
        "wdsflow measure 'in/{0..3}.tar' -o scored --scores min_side"
        """
        words = ["wdsflow", command, *map(quote_path, compact_patterns(urls))]
        for name, value in options.items():
            if value is None:
                continue
            flag = "-o" if name == "out" else f"--{name.replace('_', '-')}"
            if value is True:
                words.append(flag)
                continue
            for item in value if isinstance(value, list | tuple) else [value]:
                words += [flag, quote_path(str(item))]
        return " ".join(words)


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    """Return a parameter as it is typed."""
    values = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
    if parameter.param_type_name == "argument":
        return [quote_path(url) for url in compact_patterns(values)]
    flag = min(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return [flag] if value else parameter.secondary_opts[:1]
    words: list[str] = []
    for text in values:
        words += [flag, quote_path(text)]
    return words


def other_output(out: str) -> Path | str:
    """Return another folder for the output.

    A path is one that is free. A url gets another name, without a look at the store.
    """
    return f"{out.rstrip('/')}-2" if remote_url(out) else unused_path(Path(out))


def unused_path(path: Path) -> Path:
    """Return a path that does not exist and can be created.

    It is this path, numbered if needed, or its name in another folder.

    >>> unused_path(Path("/proc/none/kept")).name
    'kept'
    """
    if not path.name:
        # "." and "/".
        path = Path("out")
    name = path.name[:_LONGEST]
    for candidate in (path.with_name(name), Path(name), Path(tempfile.gettempdir()) / name):
        if _can_be_made(candidate):
            path = candidate
            break
    numbered = path
    number = 2
    while os.path.lexists(numbered):
        numbered = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return numbered


def _can_be_made(path: Path) -> bool:
    parent = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    try:
        # os.access is wrong for root and for /proc.
        discard_temporary(*create_temporary(parent / path.name))
    except OSError:
        return False
    return True
