"""The options of a join: a table, and what of it becomes fields of samples while they are read."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from wdsflow.text.options import (
    join_ambiguous_option,
    join_cache_option,
    join_drop_unmatched_option,
    join_on_option,
    join_option,
    join_set_option,
)

from .join_on import HASHES, parse_on, parse_set

Ambiguous = Literal["refuse", "each"]


class UnpairedJoin(ValueError):
    """A table to join is given without fields to set, or the fields without a table."""


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """A table whose values become fields of samples. Raises ValueError, such as UnpairedJoin."""

    join: str | os.PathLike[str] | None = join_option()
    join_on: str = join_on_option()
    join_set: Sequence[str] | Mapping[str, str] = join_set_option()
    join_ambiguous: Ambiguous = join_ambiguous_option()
    join_drop_unmatched: bool = join_drop_unmatched_option()
    join_cache: str | None = join_cache_option()

    def __post_init__(self) -> None:
        """Bring the options into one form."""
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
        if self.join is not None and parse_on(self.join_on).kind in HASHES:
            raise ValueError(
                f"join_on is {self.join_on!r}: samples are joined on the key, or on json:NAME, while they are read; for hashes of images write new shards: wdsflow graft --help"
            )

    @classmethod
    def of(cls, options: object) -> "JoinOptions":
        """Return the options of a join among others. Raises as the class."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)})
