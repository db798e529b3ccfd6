"""A line of a record: the result of one output, and the values that decide it."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError
from wdsflow.text.shell import escape

from .counts import Counts

if TYPE_CHECKING:
    from typing_extensions import Self

# In names that are not UTF-8; pydantic's parser, which
# takes half of the time of the module json, refuses it.
_SURROGATE = re.compile(rb"\\ud[c-f]", re.IGNORECASE)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Line:
    """The result of one output. Subclasses are dataclasses whose fields JSON can hold.

    Attributes:
        name: of the output: its path in the folder.
        unrecorded_fields: fields that are not recorded.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    unrecorded_fields: ClassVar[frozenset[str]] = frozenset()
    name: str

    @property
    def origin(self) -> dict[str, object]:
        """The values that decide the output: it is written again if one of them has changed."""
        raise NotImplementedError

    def sums(self) -> Iterable[Counts]:
        """Yield the counts that add up."""
        return ()

    def check(self) -> None:
        """Raise RuntimeError if counts do not add up."""
        for counts in self.sums():
            counts.check(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        values = vars(self)
        return {name: values[name] for name in _recorded_fields(type(self))}  # type: ignore[arg-type]  # as below

    def to_line(self) -> bytes:
        """Return the line."""
        return _encode(self.to_dict()).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Self":
        """Parse a line of a record.

        Raises ValueError if it is partial, of another version, or has counts that do not add up.
        """
        reader = _validator(cls)  # type: ignore[arg-type]  # mypy has it as not hashable
        result: Self
        if _SURROGATE.search(line):
            result = reader.validate_python(values_of(line))
        else:
            result = reader.validate_json(line, strict=True)
        try:
            result.check()
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return result


@dataclass(kw_only=True)
class OneFile(Line):
    """The result of an output that is one file.

    Attributes:
        made_from: the values that decide its bytes.
        identity: of the file; None if it does not exist, because no sample was left for it.
        output: path of the file.
    """

    unrecorded_fields: ClassVar[frozenset[str]] = frozenset({"output"})

    name: str = ""
    made_from: dict[str, object] = field(default_factory=dict)
    identity: dict[str, object] | None = None
    output: str | None = None

    @classmethod
    def of(cls, job: Any) -> "Self":
        """Return the line of an output before it is written.

        Values that are known only later are missing.
        """
        # Subclasses take what they need.
        del job
        return cls()

    def line_of_failure(self, error: OSError) -> "Self":
        """Return the line of an output whose inputs could not be read.

        Raises the error if it ends the run.
        """
        raise error

    @property
    def origin(self) -> dict[str, object]:
        """The values that decide its bytes."""
        return self.made_from

    @property
    def counted(self) -> int:
        """The samples of the file, as readers count them."""
        raise NotImplementedError

    @property
    def is_final(self) -> bool:
        """Whether the next run need not try again; otherwise it is not recorded."""
        return True

    def seal(self, path: Path, made_from: dict[str, object]) -> None:
        """Add the facts about the complete file at ``path``. Raises OSError."""
        self.name = path.name
        self.made_from = made_from
        self.identity = None if self.output is None else fingerprint(str(path))


@dataclass
class NewShard(OneFile):
    """The outcome of one shard that is written again.

    Attributes:
        url: the shard.
        lost: read errors.
        bytes: of the output.
    """

    url: str
    lost: list[str] = field(default_factory=list)
    bytes: int = 0

    @classmethod
    def of(cls, job: Any) -> "Self":
        """Return the line of a shard that is about to be written."""
        return cls(job.url)

    def line_of_failure(self, error: OSError) -> "Self":
        """Return the line of a shard that could not be read. Raises errors of the output."""
        if not isinstance(error, SourceError) and error.errno not in UNREADABLE:
            raise error
        return type(self)(self.url, lost=[*self.lost, str(error)])

    @property
    def is_final(self) -> bool:
        """Whether the next run can skip the shard: it was written, or read without an error."""
        return bool(self.output) or not self.lost

    def lines(self, outcome: str) -> Iterator[str]:
        """Yield the outcome of the shard, and read errors."""
        output = escape(self.output, 300) if self.output else "-"
        yield f"{escape(self.url, 300)} -> {output}: {outcome}"
        for error in self.lost:
            yield f"  lost: {escape(error, 300)}"


@cache
def _recorded_fields(kind: type[Line]) -> list[str]:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return [name for name in names if name not in kind.unrecorded_fields]


@cache
def _validator(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def values_of(line: bytes) -> Any:
    """Return the values of a line. Raises ValueError if it is invalid."""
    from pydantic_core import from_json

    if _SURROGATE.search(line):
        return json.loads(line)
    return from_json(line)
