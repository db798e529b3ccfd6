"""Records of samples' fields for comparison, in files by the hash of the key."""

import json
import marshal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple

from xxhash import xxh3_64_intdigest, xxh3_128, xxh3_128_intdigest

from wdsflow.shards.atomic import naming
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.tar.plain_entries import Row

from .set_diff import Example, ScoreDiff, SetDiff

TEXTS = frozenset(("txt", "text", "caption", "captions", "cap", "transcript", "prompt"))  # fields that are shown
_SHOWN = 600  # bytes of such a field
_STEP = 4 << 20
_LENGTH = Struct("<I")

Value = float | bool | str | None


class FieldRecord(NamedTuple):
    """One field of a sample."""

    name: str  # lower case, as in readers
    size: int  # bytes
    digest: int  # xxh3 of the contents, 128 bits
    text: bytes | None  # the start of a caption


class KeyRecord(NamedTuple):
    """A sample of set 0 or 1; with ``scores`` instead of ``fields``, a row of its ledger."""

    side: int
    key: str
    shard: int
    number: int  # in the shard
    fields: tuple[FieldRecord, ...] = ()
    scores: tuple[tuple[str, Value], ...] | None = None

    @staticmethod
    def read(file: IO[bytes]) -> Iterator["KeyRecord"]:
        """Yield what ``dump`` returned, from a file."""
        while head := file.read(_LENGTH.size):
            data = file.read(_LENGTH.unpack(head)[0])
            side, key, shard, number, fields, scores = marshal.loads(data)  # noqa: S302 - this run wrote it
            yield KeyRecord(side, key, shard, number, tuple(map(FieldRecord._make, fields)), scores)

    def dump(self) -> bytes:
        """Return the record as bytes."""
        data = marshal.dumps((*self[:4], tuple(map(tuple, self.fields)), self.scores))
        return _LENGTH.pack(len(data)) + data


def record_of(sample: TarSample, samples: Samples, side: int, shard: int) -> KeyRecord:
    """Return the record of a sample that was just read. Raises OSError."""
    fields = (_field(name, row, samples) for name, row in sorted(sample.fields.items()))
    return KeyRecord(side, sample.key, shard, sample.number, tuple(fields))


def _field(name: str, row: Row, samples: Samples) -> FieldRecord:
    size = row[1]
    start = samples.read(row, 0, min(size, _STEP))
    at, text = len(start), start[:_SHOWN] if name in TEXTS else None
    if at == size:
        return FieldRecord(name, at, xxh3_128_intdigest(start), text)
    digest = xxh3_128(start)
    while 0 < at < size and (data := samples.read(row, at, min(size - at, _STEP))):
        digest.update(data)
        at += len(data)
    return FieldRecord(name, at, digest.intdigest(), text)


def ledger_records(path: Path, side: int, shard: int) -> Iterator[KeyRecord]:
    """Yield a record for each row of a ledger. Raises LedgerError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wdsflow.filtering.ledger.ledger import RESERVED, column_of
    from wdsflow.filtering.ledger.ledger_row import KEYS, LedgerError, read_about

    read_about(path)
    left_out, types = RESERVED - {"outcome", KEYS}, pa.types
    of_scores = (types.is_floating, types.is_integer, types.is_boolean, types.is_string, types.is_dictionary)
    try:
        with pq.ParquetFile(path) as file:
            schema, number = file.schema_arrow, 0
            kinds = {each.name: each.type for each in schema if each.name not in left_out}
            names = [name for name, kind in kinds.items() if any(test(kind) for test in of_scores)]
            lists = [name for name in ("several",) if name in schema.names]
            for batch in file.iter_batches(columns=["key", *names, *lists]):
                for row in batch.to_pylist():
                    scores = {name: row[name] for name in names}
                    if row.get("several"):  # the scores of a sample with several images or captions
                        found = json.loads(row["several"])
                        scores |= {column_of(name): json.dumps(values) for name, values in found.items()}
                    yield KeyRecord(side, str(row["key"]), shard, number, (), tuple(sorted(scores.items())))
                    number += 1
    except (pa.ArrowException, KeyError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from None


_LARGEST = 24 << 20  # bytes of a part in its file; in memory, it takes about six times as many
_BUFFER = 32 << 10
_BITS, _DEEPER = 7, 16  # 128 parts, which any system lets a process open, each split into 16
_DEEPEST = 4  # from this depth on, parts of one key, by contents


class KeyParts:
    """Records, spread over files in ``folder``. Use as a context manager; the files are removed as they are read.

    Args:
        folder: exists; its disk takes about 180 bytes for a sample of three fields.
        largest: bytes of a part that is held in memory.
    """

    def __init__(self, folder: Path, largest: int = _LARGEST) -> None:
        self._folder, self._largest = folder, largest
        self._files: list[IO[bytes]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "KeyParts":  # noqa: PYI034 - Self needs Python 3.11
        for number in range(1 << _BITS):
            self._files.append(open(self._folder / f"{number:03d}", "wb", _BUFFER))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            _close(file)

    def add(self, records: Iterable[KeyRecord]) -> None:
        """Add records; may be called by several threads. Raises OSError, which names a file."""
        packed = [(_hash_of(record.key) >> 64 - _BITS, record.dump()) for record in records]
        with self._lock, naming(self._folder):
            for part, data in packed:
                self._files[part].write(data)

    def parts(self) -> Iterator[list[KeyRecord]]:
        """Yield the records of one part after the other, once all have been added. Raises OSError."""
        with naming(self._folder):
            for file in self._files:
                file.close()
        for number in range(1 << _BITS):
            yield from self._read(self._folder / f"{number:03d}", 1)

    def _read(self, path: Path, depth: int) -> Iterator[list[KeyRecord]]:
        if path.stat().st_size <= self._largest or depth > _DEEPEST + 1:
            with path.open("rb", 1 << 20) as file:
                records = list(KeyRecord.read(file))
            path.unlink()
            if records:
                yield records
            return
        names = [path.with_name(f"{path.name}-{number:02d}") for number in range(_DEEPER)]
        files = [open(name, "wb", _BUFFER) for name in names]  # noqa: SIM115
        try:
            with naming(self._folder), path.open("rb", 1 << 20) as whole:
                for record in KeyRecord.read(whole):
                    files[_place(record, depth)].write(record.dump())
                for file in files:
                    file.close()
        finally:
            for file in files:
                _close(file)
        path.unlink()
        for name in names:
            yield from self._read(name, depth + 1)


def _place(record: KeyRecord, depth: int) -> int:
    if depth <= _DEEPEST:
        return (_hash_of(record.key) >> (64 - _BITS - 4 * depth)) % _DEEPER
    return hash(tuple(field[:3] for field in record.fields)) % _DEEPER


def _hash_of(key: str) -> int:
    return xxh3_64_intdigest(key.encode("utf-8", "surrogatepass"))


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # a full disk: the buffered rest is not needed
        file.close()


def compare_part(records: Sequence[KeyRecord], found: SetDiff) -> None:
    """Add the differences between the records of both sides, which include all records of their keys."""
    samples: dict[str, tuple[list[KeyRecord], list[KeyRecord]]] = {}
    rows: dict[str, tuple[list[KeyRecord], list[KeyRecord]]] = {}
    for record in records:
        by_key = samples if record.scores is None else rows
        by_key.setdefault(record.key, ([], []))[record.side].append(record)
    for pair in samples.values():
        for side, own in zip(found.sides, pair, strict=True):
            side.repeated += max(0, len(own) - 1)
        _compare_samples(*pair, found)
    for pair in rows.values():
        before, after = (sorted(own, key=lambda each: (each.shard, each.number)) for own in pair)
        for old, new in zip(before, after, strict=False):
            then, now = dict(old.scores or ()), dict(new.scores or ())
            for name in then.keys() & now.keys():
                _compare_score(then[name], now[name], found.scores.setdefault(name, ScoreDiff()))
        found.only_scored[0] += max(0, len(before) - len(after))
        found.only_scored[1] += max(0, len(after) - len(before))


def _compare_samples(ours: list[KeyRecord], theirs: list[KeyRecord], found: SetDiff) -> None:
    if len(ours) == len(theirs) == 1:
        if _contents(ours[0]) == _contents(theirs[0]):
            found.same += 1
        else:
            _note_changed(ours[0], theirs[0], found)
        return
    common = Counter(map(_contents, ours)) & Counter(map(_contents, theirs))
    found.same += common.total()
    before, after = _without(ours, common), _without(theirs, common)
    for old, new in zip(before, after, strict=False):
        _note_changed(old, new, found)
    for side, rest in enumerate((before[len(after) :], after[len(before) :])):
        found.only[side] += len(rest)
        for record in rest:
            found.note(found.only_examples[side], _example(record, found))


def _contents(record: KeyRecord) -> tuple[tuple[str, int, int], ...]:
    return tuple(field[:3] for field in record.fields)


def _without(records: Iterable[KeyRecord], common: Counter[tuple[tuple[str, int, int], ...]]) -> list[KeyRecord]:
    """Return the records in order, minus as many of each contents as are common."""
    left, rest = Counter(common), []
    for record in sorted(records, key=lambda each: (each.shard, each.number)):
        contents = _contents(record)
        if left[contents]:
            left[contents] -= 1
        else:
            rest.append(record)
    return rest


def _note_changed(old: KeyRecord, new: KeyRecord, found: SetDiff) -> None:
    found.changed += 1
    example = _example(old, found)
    before, after = ({field.name: field for field in record.fields} for record in (old, new))
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one is not None and other is not None and one[1:3] == other[1:3]:
            continue
        what = "added" if one is None else "removed" if other is None else "changed"
        example.fields[name] = what
        found.fields.setdefault(name, Counter())[what] += 1
        texts = _text(one), _text(other)
        if any(text is not None for text in texts):
            example.captions.append((name, *texts))
    found.note(found.changed_examples, example)


def _text(field: FieldRecord | None) -> str | None:
    if field is None or field.text is None:
        return None
    return field.text.decode("utf-8", "surrogateescape") + ("..." if field.size > len(field.text) else "")


def _example(record: KeyRecord, found: SetDiff) -> Example:
    shard = found.sides[record.side].shards[record.shard]
    return Example((record.side, record.shard, record.number), record.key, shard)


def _compare_score(then: Value, now: Value, score: ScoreDiff) -> None:
    score.compared += 1
    differs = then != now and not (then != then and now != now)  # noqa: PLR0124 - NaN is the same as NaN
    score.changed += differs
    if isinstance(then, bool | str) or isinstance(now, bool | str) or then is None or now is None:
        return
    if then == then and now == now:  # noqa: PLR0124
        score.numbers += 1
        score.sums[0] += then
        score.sums[1] += now
        if differs:
            score.largest = max(score.largest, abs(now - then))
