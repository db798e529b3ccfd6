"""Samples after stages: changed members are in memory, all others stay in the tar."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsflow.pieces.new_members import member, moved
from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.shards.tar.tar_header import padded
from wdsflow.stages.base import Dropped, SampleStage, StageError
from wdsflow.stages.clean_text import CleanText
from wdsflow.stages.json_text import JsonText

if TYPE_CHECKING:
    from wdsflow.shards.samples.tar_samples import Samples

DROPPED = "dropped by "  # prefix of the trouble of a sample that a stage dropped
_LARGEST = 17 << 20  # bytes of a text; the stages' own bounds are below it


class Gone(Exception):
    """A sample that a stage dropped, or could not handle. ``trouble`` is the reason in its row."""

    def __init__(self, trouble: str, detail: str = "") -> None:
        super().__init__(trouble)
        self.trouble, self.detail = trouble, detail


class Lying(NamedTuple):
    """A member in the tar."""

    field: str
    row: Row


class Staging:
    """Passes samples of a shard through stages."""

    def __init__(self, stages: Sequence[SampleStage], samples: "Samples", url: str) -> None:
        self._samples, self._url = samples, url
        self._stages = [(f"stage {number} {stage.name}", stage) for number, stage in enumerate(stages, 1)]

    def __bool__(self) -> bool:
        return bool(self._stages)

    def fields(self, sample: TarSample) -> dict[str, Any]:
        """Return the fields of the latest sample: ``Lying`` members, bytes that were read, and new text.

        Raises Gone, OSError.
        """
        found: dict[str, Any] = {name: Lying(name, row) for name, row in sample.fields.items()}
        found |= {"__key__": sample.key, "__url__": self._url}
        for place, stage in self._stages:
            try:
                self._read(stage, found)
                found = stage.apply(found)
                for name, value in found.items():
                    if isinstance(value, str) and name not in {"__key__", "__url__"}:
                        found[name] = value.encode()
            except Dropped as drop:
                raise Gone(f"{DROPPED}{place}: {drop.reason}") from None
            except UnicodeEncodeError:
                raise Gone(f"{place}: not-text", "it has half a surrogate pair, which is not text") from None
            except StageError as error:
                if stage.on_error == "drop":
                    raise Gone(f"{DROPPED}{place}: {error.slug}", str(error)) from None
                raise Gone(f"{place}: {error.slug}", str(error)) from None
        del found["__key__"], found["__url__"]
        if not found:
            raise Gone(f"{DROPPED}{self._stages[-1][0]}: no field is left")
        return found

    def _read(self, stage: SampleStage, found: dict[str, Any]) -> None:
        """Read the fields whose contents a stage needs."""
        looked_at: Iterable[str] = ()
        if isinstance(stage, CleanText):
            looked_at = stage.field.split(";")
        elif isinstance(stage, JsonText):
            looked_at = (stage.source,) if stage.on_target != "keep" or stage.target not in found else ()
        for name in looked_at:
            value = found.get(name)
            if isinstance(value, Lying):
                size = value.row[1]
                if size > _LARGEST:
                    raise StageError("large-text", f"{name!r} has {size:,} bytes")
                found[name] = self._samples.read(value.row)
                if len(found[name]) < size:
                    raise StageError("unread", f"{len(found[name]):,} of the {size:,} bytes of {name!r} could be read")


def pieces_of(sample: TarSample, found: dict[str, Any], samples: "Samples") -> Iterator[Piece]:
    """Yield the parts of a sample after its stages: ranges of the tar, and new bytes.

    A member that no stage changed stays in its place, with everything between members.
    """
    at = sample.start
    new = {name: value for name, value in found.items() if not _as_it_was(name, value, sample, samples)}
    for field, row in sorted(sample.fields.items(), key=lambda item: item[1][3]):
        if field in found and field not in new:
            continue
        _, size, data, start, _ = row
        yield at, start
        moved = [name for name, value in new.items() if isinstance(value, Lying) and value.field == field]
        for name in [field] if field in new else moved:
            yield from _member(f"{sample.key}.{name}", new.pop(name))
        at = data + padded(size)
    yield at, sample.end
    for name, value in new.items():
        yield from _member(f"{sample.key}.{name}", value)


def _as_it_was(name: str, value: Any, sample: TarSample, samples: "Samples") -> bool:
    row = sample.fields.get(name)
    if row is None:
        return False
    if isinstance(value, Lying):
        return value.field == name
    return len(value) == row[1] and samples.read(row) == value


def _member(name: str, value: "Lying | bytes") -> Iterator[Piece]:
    if isinstance(value, Lying):
        yield from moved(name, value.row[2], value.row[1])
    else:
        yield member(name, value)
