"""What the shapes of a shard's runs tell."""

from collections.abc import Callable, Container, Iterator

from .evidence import FieldCount, Run, Shape, ShardEvidence, Tally
from .naming import is_dotted, is_numbered


def note_shapes(shard: ShardEvidence, note: Callable[[str], Tally]) -> None:
    """Count fields, repeated fields, dotted names and the samples that these hide: a shape at a time."""
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
    shard.numbered = any(_numbers(shape) for shape, *_ in shapes)
    for suffix, count in counts.items():
        if len(shard.fields) < 256 or suffix in shard.fields:
            shard.fields.setdefault(suffix, FieldCount()).count = count
        else:
            shard.fields.setdefault("*." + suffix.rpartition(".")[2][:16], FieldCount()).count += count
    # A field such as input.jpg stands in most samples; the rest of a dotted base name in one or a few.
    # A dict, not a set: the first of them is shown, and reports must not differ from run to run.
    wild = {
        suffix: None
        for suffix, count in counts.items()
        if is_dotted(suffix)
        and (count < 2 or count < shard.samples / 2)
        and not (shard.numbered and is_numbered(suffix))
    }
    for suffix in wild:
        note("name.dotted").add(*places[suffix], suffix, counts[suffix])
    if wild:
        shard.samples += sum(count * _hidden(shape, wild) for shape, count, _, _ in shapes)


def _numbers(shape: Shape) -> bool:
    """Return whether numbered files of one sample are next to a field without a dot: 0.jpg, 1.jpg and txt."""
    numbered = sum(is_numbered(part.suffix) for part in shape)
    return numbered > 1 and any("." not in part.suffix for part in shape)


def _hidden(shape: Shape, wild: Container[str]) -> int:
    """Return how many samples dots in base names have merged into one run, the one that shows not counted.

    ``img.v1.jpg``, ``img.v1.txt`` and ``img.v2.jpg`` are one run with the key ``img``, and were two samples.
    """
    names = {part.suffix.lower() for part in shape}
    # Beside plain fields an odd one, such as thumb.jpg in one sample of many, is a field like others.
    return len({name.rpartition(".")[0] for name in names}) - 1 if all(name in wild for name in names) else 0


def runs_of(shard: ShardEvidence) -> Iterator[Run]:
    """Yield the first example of every distinct run in a shard, ends included."""
    if shard.runs.head is not None:
        yield shard.runs.head
    for item in shard.runs.inner:
        yield Run(item.key, item.offset, item.shape)
    if shard.runs.tail is not None:
        yield shard.runs.tail
