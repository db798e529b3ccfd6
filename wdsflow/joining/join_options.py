"""The options of a join: a table, and what of it becomes fields of samples while they are read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from wdsflow.text.options import OTHER, SAMPLES, option

from .join_on import parse_on, parse_set

Ambiguous = Literal["refuse", "first", "each", "drop"]


class UnpairedJoin(ValueError):
    """A table to join is given without fields to set, or the fields without a table."""


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """A table whose values become fields of samples. Raises ValueError, such as UnpairedJoin."""

    join: str | os.PathLike[str] | None = option(
        None,
        "Table whose values become fields of samples while they are read: .parquet, .csv or .jsonl, a folder of such files, or one that measure or filter wrote. Data for evaluation stay as they are.",
        metavar="TABLE",
        panel=SAMPLES,
    )
    join_on: str = option(
        "key",
        "What samples and rows are joined on: key, or json:NAME for a value in the json; WHAT=COLUMN if the column of the table has another name.",
        metavar="WHAT",
        panel=SAMPLES,
    )
    join_set: Sequence[str] | Mapping[str, str] = option(
        (),
        "With --join: txt=caption, or json:NAME=COLUMN for a value in the json; repeatable.",
        metavar="FIELD=COLUMN",
        panel=SAMPLES,
    )
    join_ambiguous: Literal["refuse", "first", "each", "drop"] = option(
        "refuse",
        "With --join: samples with several rows, or with the row of another sample. refuse: such a join is an error; first: the first sample gets the first row; each: each sample gets the first row; drop: none gets any.",
        metavar="HOW",
        panel=SAMPLES,
    )
    join_drop_unmatched: bool = option(
        False,
        "With --join: leave out samples that get nothing: without a row, or ambiguous under --join-ambiguous first or drop.",
        panel=SAMPLES,
    )
    join_cache: str | None = option(
        None,
        "Folder for indexes of joined tables, by default ~/.cache/wdsflow/joins. All processes of a machine share it.",
        metavar="DIR",
        panel=OTHER,
    )

    def __post_init__(self) -> None:
        """Bring the options into one form. Raises ValueError, such as UnpairedJoin."""
        if self.join is not None:
            object.__setattr__(self, "join", os.fspath(self.join))
        given = self.join_set
        if isinstance(given, Mapping):
            given = [f"{target}={column}" for target, column in given.items()]
        object.__setattr__(self, "join_set", tuple(given))
        if given and self.join is None:
            raise UnpairedJoin(
                "the join lacks a table: join_set (--join-set) names columns of one; name it with join (--join)"
            )
        if given:
            parse_set(given)
        if self.join_ambiguous not in get_args(Ambiguous):
            choices = ", ".join(get_args(Ambiguous))
            raise ValueError(f"join_ambiguous is {self.join_ambiguous!r}; choose one of {choices}")
        if self.join is not None:
            parse_on(self.join_on, hashes=False)

    def changed_join(self) -> dict[str, object]:
        """Return the options of the join that differ from their defaults, by name."""
        changed: dict[str, object] = {}
        for item in fields(JoinOptions):
            value = getattr(self, item.name)
            if value != item.default:
                changed[item.name] = value
        return changed


def no_join() -> dict[str, Any]:
    """Return the options of a join, by name, without one."""
    return {item.name: item.default for item in fields(JoinOptions)}


def join_names() -> tuple[str, ...]:
    """Return the names of the options of a join."""
    return tuple(item.name for item in fields(JoinOptions))


def join_words(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the options of a join among others, by name, as words of a command.

    >>> list(join_words({"join": "t.csv", "join_set": ("txt=a", "cls=b"), "join_drop_unmatched": True}))
    ['--join', 't.csv', '--join-set', 'txt=a', '--join-set', 'cls=b', '--join-drop-unmatched']
    """
    for name in join_names():
        if name not in options:
            continue
        value = options[name]
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        elif isinstance(value, (list, tuple)):
            for part in value:
                yield from (flag, str(part))
        else:
            yield from (flag, str(value))
