"""Options of commands.

Each is declared once, as a field of the dataclass that a Python function takes.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

MAIN = "Main options"
SAMPLES = "Samples"
OUTPUT = "Output"
CHECKS = "Checks and reports"
MODELS = "Models"
MEMORY = "Memory"
MACHINES = "Ray and job arrays"
OTHER = "Other options"
# The groups of options in --help, in this order.
PANELS = (MAIN, SAMPLES, OUTPUT, CHECKS, MODELS, MEMORY, MACHINES, OTHER)

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
O_co = TypeVar("O_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """How commands take a field.

    Attributes:
        help: its meaning, in ``--help`` and in the reference.
        flags: how it is spelled; none for ``--`` and the name of the field.
        metavar: the name of the value in ``--help``.
        panel: the group in ``--help``.
        least: the smallest number that is accepted.
        most: the largest one.
        parse: converts the typed text, a list if the field takes several values. Raises ValueError.
        positional: it is an argument, not an option.
    """

    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str = MAIN
    least: float | None = None
    most: float | None = None
    parse: Callable[[Any], object] | None = None
    positional: bool = False


def option(
    default: T,
    text: str,
    *flags: str,
    metavar: str | None = None,
    panel: str = MAIN,
    least: float | None = None,
    most: float | None = None,
    parse: Callable[[Any], object] | None = None,
) -> T:
    """Return a field of a dataclass that commands take as an option; see ``Option``."""
    about = Option(text, flags, metavar, panel, least, most, parse)
    return field(default=default, metadata={"option": about})


def required(
    text: str, *flags: str, metavar: str, parse: Callable[[Any], object] | None = None
) -> Any:
    """Return a field that commands take as an option without a default."""
    return field(metadata={"option": Option(text, flags, metavar, parse=parse)})


# Options that several commands have. Each is one call,
# which scripts/support/api_reference.py reads.


def allow_pipe_option(panel: str = MAIN) -> bool:
    """Return the field of ``--allow-pipe``."""
    return option(False, "Run pipe: urls in a shell.", panel=panel)


def restart_option() -> bool:
    """Return the field of ``--restart``."""
    return option(
        False, "Remove what an earlier run wrote, or resume it (default).", "--restart/--resume"
    )


def processes_option() -> int | None:
    """Return the field of ``--jobs`` for commands that start processes where they pay."""
    return option(
        None,
        "Number of processes; by default up to one per core, two if shards are remote.",
        metavar="N",
        least=1,
    )


def address_option() -> str | None:
    """Return the field of ``--address``."""
    return option(
        None,
        "Address of the Ray cluster. By default RAY_ADDRESS, the cluster of this machine, or a new one.",
        metavar="HOST:PORT",
        panel=MACHINES,
    )


def argument(metavar: str, text: str, *, parse: Callable[[Any], object] | None = None) -> Any:
    """Return a field that commands take as a positional argument.

    It is optional if its type includes None or its ``metavar`` has brackets.
    """
    return field(metadata={"option": Option(text, metavar=metavar, positional=True, parse=parse)})


def folder(text: str) -> Path:
    """Parse the name of a folder.

    Raises ValueError for "", which results from an unset shell variable.
    """
    if not text:
        raise ValueError(
            "it is empty: name a folder, or . for this one; is a variable of the shell not set?"
        )
    return Path(text)


def folder_or_url(text: str) -> Path | str:
    """Parse the name of a folder, or the url of one in an object store.

    A url stays a text, because a path would change it. Raises ValueError.

    >>> folder_or_url("s3://bucket/out")
    's3://bucket/out'
    """
    return text if re.match("(?!file:)[A-Za-z][A-Za-z0-9+.-]*://", text) else folder(text)


def split_commas(values: Sequence[str]) -> list[str]:
    """Split values that are given separately or joined by commas.

    >>> split_commas(["W001,W002", "F1"])
    ['W001', 'W002', 'F1']
    """
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


class _TakesKeywords(Protocol[P, O_co]):
    @overload
    def __call__(self, function: Callable[[A, O_co], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B, O_co], R]
    ) -> Callable[Concatenate[A, B, P], R]: ...


def keywords(options: Callable[P, O_co]) -> _TakesKeywords[P, O_co]:
    """Give a function a dataclass's fields as keyword arguments, in place of its last parameter.

    >>> @dataclass
    ... class Options:
    ...     jobs: int = 1
    >>> @keywords(Options)
    ... def run(urls: str, options: Options) -> str:
    ...     return f"{urls}, {options.jobs}"
    >>> run("a.tar", jobs=2)
    'a.tar, 2'
    >>> run("a.tar", job=2)
    Traceback (most recent call last):
    TypeError: run() got an unexpected keyword argument 'job'
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        *own, _last = function.__code__.co_varnames[: function.__code__.co_argcount]
        known = {each.name for each in fields(cast("Any", options))}

        @functools.wraps(function)
        def call(*given: object, **named: object) -> R:
            rest = {name: named.pop(name) for name in own[len(given) :] if name in named}
            make = cast("Callable[..., object]", options)
            if unknown := [name for name in named if name not in known]:
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}"
                )
            return function(*given[: len(own)], *rest.values(), make(*given[len(own) :], **named))

        return call

    return cast("_TakesKeywords[P, O_co]", decorate)
