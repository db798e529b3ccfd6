"""The typed command: its options, and its text with some of them changed."""

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from wdsflow.records.working_folder import remote_url
from wdsflow.shards.atomic import create, discard
from wdsflow.shards.written_names import compact
from wdsflow.text.shell import quote, quote_path

# Characters of a suggested name.
_LONGEST = 50


class Typed:
    """A typed command; ``again`` spells it as a command to paste."""

    def __init__(self, context: click.Context) -> None:
        self._parameters = context.command.params
        self.name = str(context.info_name)
        # Arguments after --.
        self.after_dashes: list[str] | None = context.obj
        self.given: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in context.params.items()
            if value is not None and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        }

    def again(self, **changed: Any) -> str:
        """Return the command with some parameters changed, by their names in Python; None omits one."""
        values = {**self.given, **changed}
        words = ["wdsflow", self.name]
        for parameter in self._parameters:
            if (value := values.get(parameter.name)) is not None:
                words += _words(parameter, value)
        return " ".join([*words, *(["--", *map(quote, self.after_dashes)] if self.after_dashes is not None else [])])

    def options(self) -> set[str]:
        """Return the options of the command as flags, such as "--restart"."""
        return {word for each in self._parameters if each.param_type_name == "option" for word in each.opts}

    def look(self, command: str, *urls: str, **options: object) -> str:
        """Return another command for the same shards, as ``spell``; it may run ``pipe:`` urls if this command may."""
        return self.spell(command, *urls, **options) + (" --allow-pipe" if self.given.get("allow_pipe") else "")

    @staticmethod
    def spell(command: str, *urls: str, **options: object) -> str:
        """Return another command, with options by their names; None omits one.

        >>> Typed.spell("measure", "in/{0..3}.tar", out="scored", scores="min_side")
        "wdsflow measure 'in/{0..3}.tar' -o scored --scores min_side"
        """
        words = ["wdsflow", command, *map(quote_path, compact(urls))]
        for name, value in options.items():
            if value is not None:
                words += ["-o" if name == "out" else f"--{name.replace('_', '-')}", quote_path(str(value))]
        return " ".join(words)


def _words(parameter: click.Parameter, value: object) -> list[str]:
    values = [str(each) for each in (value if isinstance(value, (list, tuple)) else [value])]
    if parameter.param_type_name == "argument":
        return [quote_path(each) for each in compact(values)]
    option = min(parameter.opts, key=len)
    if getattr(parameter, "is_flag", False):
        return [option] if value else parameter.secondary_opts[:1]
    return [word for each in values for word in (option, quote_path(each))]


def another(out: str) -> Path | str:
    """Return another folder for the output: a free path; of a url another name, without a look at the store."""
    return f"{out.rstrip('/')}-2" if remote_url(out) else free(Path(out))


def free(path: Path) -> Path:
    """Return a path that does not exist and can be created: this one, numbered if needed, or its name elsewhere.

    >>> free(Path("/proc/none/kept")).name
    'kept'
    """
    # "." and "/".
    path = path if path.name else Path("out")
    name = path.name[:_LONGEST]
    places = [path.with_name(name), Path(name), Path(tempfile.gettempdir()) / name]
    found = path = next((place for place in places if _can_be_made(place)), path)
    number = 2
    while os.path.lexists(found):
        found, number = path.with_name(f"{path.stem}-{number}{path.suffix}"), number + 1
    return found


def _can_be_made(path: Path) -> bool:
    parent = next(each for each in path.absolute().parents if os.path.lexists(each))
    try:
        # os.access is wrong for root and for /proc.
        discard(*create(parent / path.name))
    except OSError:
        return False
    return True
