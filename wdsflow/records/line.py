"""What became of one output: a line of the record."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from typing_extensions import Self

from wdsflow.shards.shard_identity import fingerprint

from .counts import Counts

L = TypeVar("L", bound="Line")


class Line:
    """What became of one output. Subclasses are dataclasses whose fields JSON can hold.

    Attributes:
        name: of the output: its path in the folder.
        passing: fields that are not recorded.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    passing: ClassVar[frozenset[str]] = frozenset()
    name: str

    @property
    def origin(self) -> dict[str, Any]:
        """What decides the output: it is written again if one of these values is another now."""
        raise NotImplementedError

    def sums(self) -> Iterable[Counts]:
        """Yield the counts that add up."""
        return ()

    def check(self) -> None:
        """Raise RuntimeError if counts do not add up."""
        for counts in self.sums():
            counts.check(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = (each.name for each in fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name not in self.passing}

    def to_line(self) -> bytes:
        """Return the line."""
        return json.dumps(self.to_dict(), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read a line. Raises ValueError if it is invalid: partial, of another version, or with counts that do not add up."""
        found: Self = _reader(cls).validate_json(line, strict=True)
        try:
            found.check()
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return found


@dataclass(kw_only=True)
class OneFile(Line):
    """What became of an output that is one file.

    Attributes:
        made_from: what decides its bytes.
        identity: of the file; None if there is none, because no sample was left for it.
        output: path of the file.
    """

    passing: ClassVar[frozenset[str]] = frozenset({"output"})

    name: str = ""
    made_from: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] | None = None
    output: str | None = None

    @property
    def origin(self) -> dict[str, Any]:
        """What decides its bytes."""
        return self.made_from

    @property
    def counted(self) -> int:
        """The samples of the file, as readers count them."""
        raise NotImplementedError

    @property
    def is_final(self) -> bool:
        """Whether the next run need not try again; otherwise it is not recorded."""
        return True

    def seal(self, path: Path, made_from: dict[str, Any]) -> None:
        """Add what is known when the file at ``path`` is whole. Raises OSError."""
        self.name, self.made_from = path.name, made_from
        self.identity = None if self.output is None else fingerprint(str(path))


def _made_reader(kind: type[Line]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


_reader: Any = cache(_made_reader)
