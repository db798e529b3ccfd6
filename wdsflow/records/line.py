"""A line of a record: one output, its counts that add up, and its origin."""

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from wdsflow.shards.atomic import UNREADABLE, naming
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError
from wdsflow.text.shell import escape

from .unfinished import INSIDE

if TYPE_CHECKING:
    from typing_extensions import Self

Key = TypeVar("Key", str, tuple[str, str])

L = TypeVar("L", bound="Line")
Identity = dict[str, object] | None
# The identity of a file that only has to exist.
THERE: dict[str, object] = {}
# In names that are not UTF-8; pydantic's parser, which takes half of the time of the module json,
# refuses it.
_SURROGATE = re.compile(rb"\\ud[c-f]", re.IGNORECASE)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Counts(NamedTuple):
    """Counts of samples, members or rows. ``came + made == out + sum(left_out)``."""

    # "samples".
    what: str
    came: int
    out: int
    # By reason.
    left_out: Mapping[str, int]
    # New ones; None: this cannot happen.
    made: int | None = None

    @property
    def gone(self) -> int:
        """How many were left out."""
        return sum(self.left_out.values())

    def check(self, about: object) -> None:
        """Raise RuntimeError if one is unaccounted for, or a count is negative."""
        counts = (self.came, self.out, self.made or 0, *self.left_out.values())
        if self.came + (self.made or 0) != self.out + self.gone or min(counts) < 0:
            raise RuntimeError(f"{self.what} do not add up: {self.line()}: {about}")

    def line(self, out: str = "out", left_out: str = "left out") -> str:
        """Return the sum as a line.

        >>> Counts("samples", 15, 12, {"no image": 3}).line()
        'samples: 15 in = 12 out + 3 left out'
        """
        return f"{self.what}: {self.sum(out=out, left_out=left_out)}"

    def sum(self, noun: str = "", out: str = "out", left_out: str = "left out") -> str:
        """Return the sum alone.

        >>> Counts("samples", 15, 12, {"no image": 3}).sum(" samples", "indexed")
        '15 samples in = 12 indexed + 3 left out'
        """
        made = "" if self.made is None else f" + {self.made:,} made"
        return f"{self.came:,}{noun} in{made} = {self.out:,} {out} + {self.gone:,} {left_out}"

    def parts_line(self, out: str, always: int = 0) -> str:
        """Return the sum as a line with all reasons, of which only the first ``always`` are shown if they are 0.

        >>> Counts("rows", 3, 2, {"unmatched": 1, "ambiguous": 0}).parts_line("used", always=1)
        'rows: 2 used + 1 unmatched = 3'
        """
        reasons = [
            f"{count:,} {name}"
            for at, (name, count) in enumerate(self.left_out.items())
            if count or at < always
        ]
        return f"{self.what}: {' + '.join([f'{self.out:,} {out}', *reasons])} = {self.came:,}"


def by_count(counts: Mapping[Key, int]) -> list[tuple[Key, int]]:
    """Return the entries, the most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def reason_lines(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason, the most frequent first."""
    for reason, count in by_count(counts):
        yield f"  {title}: {count:,} x {escape(reason)}"


class Line:
    """The result of one output. Subclasses are dataclasses whose fields JSON can hold.

    Attributes:
        name: of the output: its path in the folder.
        passing: fields that are not recorded.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}
    passing: ClassVar[frozenset[str]] = frozenset()
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
        return {name: values[name] for name in _recorded(type(self))}  # type: ignore[arg-type]  # as below

    def to_line(self) -> bytes:
        """Return the line."""
        return _encode(self.to_dict()).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Self":
        """Read a line. Raises ValueError if it is invalid: partial, of another version, or with counts that do not add up."""
        reader = _reader(cls)  # type: ignore[arg-type]  # mypy has it as not hashable
        odd = _SURROGATE.search(line) is not None
        found: Self = (
            reader.validate_python(values_of(line))
            if odd
            else reader.validate_json(line, strict=True)
        )
        try:
            found.check()
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return found


@dataclass(kw_only=True)
class OneFile(Line):
    """The result of an output that is one file.

    Attributes:
        made_from: the values that decide its bytes.
        identity: of the file; None if it does not exist, because no sample was left for it.
        output: path of the file.
    """

    passing: ClassVar[frozenset[str]] = frozenset({"output"})

    name: str = ""
    made_from: dict[str, object] = field(default_factory=dict)
    identity: dict[str, object] | None = None
    output: str | None = None

    @classmethod
    def of(cls, job: Any) -> "Self":
        """Return the line of an output that is about to be written, without what will be known later."""
        # Subclasses take what they need.
        del job
        return cls()

    def failed(self, error: OSError) -> "Self":
        """Return the line of an output whose inputs could not be read. Raises the error if it ends the run."""
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
        self.name, self.made_from = path.name, made_from
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

    def failed(self, error: OSError) -> "Self":
        """Return the line of a shard that could not be read. Raises errors of the output."""
        if not isinstance(error, SourceError) and error.errno not in UNREADABLE:
            raise error
        return type(self)(self.url, lost=[*self.lost, str(error)])

    @property
    def is_final(self) -> bool:
        """Whether the next run need not read the shard again: it was written, or read without an error."""
        return bool(self.output) or not self.lost

    def lines(self, outcome: str) -> Iterator[str]:
        """Yield the outcome of the shard, and read errors."""
        yield f"{escape(self.url, 300)} -> {escape(self.output, 300) if self.output else '-'}: {outcome}"
        yield from (f"  lost: {escape(trouble, 300)}" for trouble in self.lost)


@cache
def _recorded(kind: type[Line]) -> list[str]:
    return [each.name for each in fields(kind) if each.name not in kind.passing]  # type: ignore[arg-type]


@cache
def _reader(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def values_of(line: bytes) -> Any:
    """Return the values of a line. Raises ValueError if it is invalid."""
    from pydantic_core import from_json

    return json.loads(line) if _SURROGATE.search(line) else from_json(line)


def lines_paths(inside: Path, stem: str) -> list[Path]:
    """Return the files with lines of a record, oldest first: that of earlier runs, and those of slices."""
    return [inside / f"{stem}.jsonl", *sorted(inside.glob(f"{stem}-*-of-*.jsonl"))]


class LinesFile:
    """The lines of a run that works, without the partial line of a killed one. Raises OSError, which names the path."""

    # Seconds for which lines wait for one sync: each may take as long as the work on a small shard.
    _together = 0.1

    def __init__(self, path: Path) -> None:
        self._path, self._synced = path, 0.0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._size = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._file, self._size)

    def add(self, line: bytes) -> None:
        """Append a line, or nothing. Raises OSError."""
        with naming(self._path):
            try:
                if os.write(self._file, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if time.monotonic() - self._synced > self._together:
                    os.fsync(self._file)
                    self._synced = time.monotonic()
            except OSError:
                os.ftruncate(self._file, self._size)
                raise
        self._size += len(line)

    def close(self) -> None:
        """Sync the last lines."""
        # The next run writes again what was lost.
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)


def read_lines(
    paths: Iterable[Path], kind: type[L], is_current: Callable[[L], bool] = lambda line: True
) -> dict[str, L]:
    """Return the finished outputs by name. Of several lines for one, the last counts, except those of earlier results."""
    found: dict[str, L] = {}
    for path in paths:
        with suppress(FileNotFoundError), open(path, "rb") as lines:
            for text in lines:
                try:
                    line = kind.from_line(text)
                except ValueError:
                    # The partial line of a killed run, or one of another version: the output is
                    # written again.
                    continue
                before = found.get(line.name)
                if before is None or is_current(line) or not is_current(before):
                    found[line.name] = line
    return found


def is_as_written(
    folder: str | os.PathLike[str], run: str, kind: type[OneFile], names: Iterable[str]
) -> bool:
    """Return whether runs of a command wrote all of these files of a folder, and none has changed since."""
    try:
        written = read_lines([Path(folder, INSIDE, f"{run}.jsonl")], kind)
        return all(
            name in written and not other_file(Path(folder, name), written[name].identity)
            for name in names
        )
    except OSError:
        # Also SourceError.
        return False


def other_file(path: Path, before: Identity) -> str:
    """Return why a file differs from the one that was written, "" if it does not. Raises SourceError if it cannot be read."""
    if before == THERE:
        return "" if path.exists() else f"{path} is missing"
    try:
        return (
            "" if fingerprint(str(path)) == before else f"{path} was changed since it was written"
        )
    except SourceError as error:
        if error.kind != "missing":
            raise
        return f"{path} is missing" if before is not None else ""
