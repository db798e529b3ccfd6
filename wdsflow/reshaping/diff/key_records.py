"""What is compared of a sample: a record of its fields, or of its scores, that is small whatever the sample holds."""

import json
import marshal
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO, Any, NamedTuple

from xxhash import xxh3_128, xxh3_128_intdigest

from wdsflow.shards.samples.tar_sample import TarSample
from wdsflow.shards.samples.tar_samples import Samples

TEXTS = frozenset(("txt", "text", "caption", "captions", "cap", "transcript", "prompt"))  # fields that are shown
_SHOWN = 600  # bytes of such a field
_STEP = 4 << 20
_LENGTH = Struct("<I")

Value = float | bool | str | None


class FieldRecord(NamedTuple):
    """One field of a sample."""

    name: str  # lower case, as readers have it
    size: int  # bytes
    digest: int  # xxh3 of the contents, 128 bits
    text: bytes | None  # the start of a caption


class KeyRecord(NamedTuple):
    """A sample of set 0 or 1; with ``scores`` in place of ``fields`` a row of its ledger."""

    side: int
    key: str
    shard: int
    number: int  # in the shard
    fields: tuple[FieldRecord, ...] = ()
    scores: tuple[tuple[str, Value], ...] | None = None

    @staticmethod
    def read(file: IO[bytes]) -> Iterator["KeyRecord"]:
        """Yield what ``dump`` wrote into a file."""
        while head := file.read(_LENGTH.size):
            yield KeyRecord.load(file.read(_LENGTH.unpack(head)[0]))

    def dump(self) -> bytes:
        """Return it as bytes."""
        data = marshal.dumps((*self[:4], tuple(map(tuple, self.fields)), self.scores))
        return _LENGTH.pack(len(data)) + data

    @staticmethod
    def load(data: bytes) -> "KeyRecord":
        """Read what ``dump`` wrote, after its length."""
        side, key, shard, number, fields, scores = marshal.loads(data)  # noqa: S302 - this run wrote it
        return KeyRecord(side, key, shard, number, tuple(map(FieldRecord._make, fields)), scores)


def record_of(sample: TarSample, samples: Samples, side: int, shard: int) -> KeyRecord:
    """Return the record of a sample that was just read. Raises OSError."""
    fields = (_field(name, row, samples) for name, row in sorted(sample.fields.items()))
    return KeyRecord(side, sample.key, shard, sample.number, tuple(fields))


def _field(name: str, row: Any, samples: Samples) -> FieldRecord:
    size = row[1]
    start = samples.read(row, 0, min(size, _STEP))
    at, digest = len(start), xxh3_128_intdigest(start)
    if at < size:
        at, digest = _rest(row, samples, start)
    return FieldRecord(name, at, digest, start[:_SHOWN] if name in TEXTS else None)


def _rest(row: Any, samples: Samples, start: bytes) -> tuple[int, int]:
    """Return size and hash of a large field."""
    size, at, digest = row[1], len(start), xxh3_128(start)
    while 0 < at < size and (data := samples.read(row, at, min(size - at, _STEP))):
        digest.update(data)
        at += len(data)
    return at, digest.intdigest()


def ledger_records(path: Path, side: int, shard: int) -> Iterator[KeyRecord]:
    """Yield a record for each row of a ledger. Raises LedgerError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wdsflow.filtering.ledger.ledger import RESERVED, column_of
    from wdsflow.filtering.ledger.ledger_metadata import KEYS, LedgerError, read_about

    read_about(path)
    left_out = RESERVED - {"outcome", KEYS}
    of_scores = (
        pa.types.is_floating,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_dictionary,
    )
    try:
        with pq.ParquetFile(path) as file:
            names = [
                each.name
                for each in file.schema_arrow
                if each.name not in left_out and any(test(each.type) for test in of_scores)
            ]
            number = 0
            has_lists = "several" in file.schema_arrow.names
            for batch in file.iter_batches(columns=["key", *names, *(["several"] if has_lists else [])]):
                columns = [batch.column(name).to_pylist() for name in names]
                lists: list[Any] = batch.column("several").to_pylist() if has_lists else [None] * len(batch)
                for at, key in enumerate(batch.column("key").to_pylist()):
                    scores = {name: column[at] for name, column in zip(names, columns, strict=True)}
                    if lists[at]:  # the scores of a sample with several images or captions
                        found = json.loads(lists[at])
                        scores |= {column_of(name): json.dumps(values) for name, values in found.items()}
                    yield KeyRecord(side, str(key), shard, number, (), tuple(sorted(scores.items())))
                    number += 1
    except (pa.ArrowException, KeyError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from None
