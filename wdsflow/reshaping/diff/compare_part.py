"""Compares all records of some keys."""

from collections import Counter
from collections.abc import Iterable, Sequence

from .key_records import FieldRecord, KeyRecord, Value
from .set_diff import Example, ScoreDiff, SetDiff


def compare_part(records: Sequence[KeyRecord], found: SetDiff) -> None:
    """Add what differs between the records of both sides; all records of their keys are among them."""
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
        _compare_rows(*pair, found)


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
    """Return the records, in their order, but as many of each contents as are common."""
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


def _compare_rows(ours: list[KeyRecord], theirs: list[KeyRecord], found: SetDiff) -> None:
    before, after = (sorted(rows, key=lambda each: (each.shard, each.number)) for rows in (ours, theirs))
    for old, new in zip(before, after, strict=False):
        then, now = dict(old.scores or ()), dict(new.scores or ())
        for name in then.keys() & now.keys():
            _compare_score(then[name], now[name], found.scores.setdefault(name, ScoreDiff()))
    found.only_scored[0] += max(0, len(before) - len(after))
    found.only_scored[1] += max(0, len(after) - len(before))


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
