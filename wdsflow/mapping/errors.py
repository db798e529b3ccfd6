"""Errors of a map, and rows that could not be mapped."""

from dataclasses import dataclass, field
from typing import Any


class MappingError(RuntimeError):
    """A row could not be mapped.

    ``index`` counts rows from 0. ``detail`` is the worker's traceback, if there is one.
    """

    def __init__(self, text: str, index: int = -1, detail: str = "") -> None:
        super().__init__(text)
        self.index = index
        self.detail = detail

    def __str__(self) -> str:
        if self.detail:
            return f"{self.args[0]}\n\n{self.detail}"
        return str(self.args[0])


class UnreadableError(ValueError):
    """A row cannot be unpickled in a worker; the row itself is not at fault."""


@dataclass
class FailedRow:
    """A row that could not be mapped.

    ``row`` is the row itself if it came from an iterable, None for a Dataset.
    """

    index: int
    error: str
    row: Any = field(default=None, repr=False)
