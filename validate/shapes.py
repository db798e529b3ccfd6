"""What the shapes of a shard's runs tell."""

from collections.abc import Callable, Iterator

from .evidence import FieldCount, Run, ShardEvidence, Tally
from .naming import is_dotted


def note_shapes(shard: ShardEvidence, note: Callable[[str], Tally]) -> None:
    """Count fields, repeated fields and dotted names: once a shape, not once a sample."""
    runs = shard.runs
    ends = [run for run in (runs.head, runs.tail) if run is not None]
    shapes = [(run.shape, 1, run.key, run.offset) for run in ends]
    shapes += [(item.shape, item.count, item.key, item.offset) for item in runs.inner]
    counts: dict[str, int] = {}
    places: dict[str, tuple[str, int]] = {}
    for shape, count, key, offset in sorted(shapes, key=lambda item: item[3]):
        lower = [part.suffix.lower() for part in shape]
        twice = len(lower) - len(set(lower))
        if twice:
            note("key.duplicate-field").add(key, offset, count=count)
        for suffix in lower:
            counts[suffix] = counts.get(suffix, 0) + count
            places.setdefault(suffix, (key, offset))
    for suffix, count in counts.items():
        if len(shard.fields) < 256 or suffix in shard.fields:
            shard.fields.setdefault(suffix, FieldCount()).count = count
        else:
            shard.fields.setdefault("*." + suffix.rpartition(".")[2][:16], FieldCount()).count += count
        # A field such as input.jpg stands in most samples; the rest of a dotted base name in one or a few.
        if is_dotted(suffix) and (count < 2 or count < shard.samples / 2):
            note("name.dotted").add(*places[suffix], suffix, count)


def runs_of(shard: ShardEvidence) -> Iterator[Run]:
    """Yield the first example of every distinct run in a shard, ends included."""
    if shard.runs.head is not None:
        yield shard.runs.head
    for item in shard.runs.inner:
        yield Run(item.key, item.offset, item.shape)
    if shard.runs.tail is not None:
        yield shard.runs.tail
