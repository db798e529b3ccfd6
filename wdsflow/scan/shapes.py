"""What the shapes of a shard's runs tell."""

from collections.abc import Callable

from wdsflow.shards.tar.member_names import is_junk

from .evidence import FieldCount, Shape, ShardEvidence, Tally
from .naming import is_dotted, is_numbered


def note_shapes(shard: ShardEvidence, note: Callable[[str], Tally]) -> None:
    """Count fields, repeated fields, dotted names and the samples that these hide: a shape at a time."""
    runs = sorted(shard.runs.counted(), key=lambda item: item.offset)
    counts: dict[str, int] = {}
    places: dict[str, tuple[str, int]] = {}
    for item in runs:
        lower = [part.suffix.lower() for part in item.shape]
        if len(lower) > len(set(lower)):
            note("key.duplicate-field").add(item.key, item.offset, count=item.count)
        for suffix in lower:
            counts[suffix] = counts.get(suffix, 0) + item.count
            places.setdefault(suffix, (item.key, item.offset))
    shard.numbered = any(_numbers(item.shape) for item in runs)
    for suffix, count in counts.items():
        if len(shard.fields) < 256 or suffix in shard.fields:
            shard.fields.setdefault(suffix, FieldCount()).count = count
        else:
            shard.fields.setdefault("*." + suffix.rpartition(".")[2][:16], FieldCount()).count += count
    # A field such as input.jpg stands in most samples; the rest of a dotted base name in one or a few.
    # A dict, not a set: the first of them is shown, and reports must not differ from run to run.
    # The field of folder/._a.jpg is _a.jpg.
    of_samples = {part.suffix.lower() for item in runs if not is_junk(item.key) for part in item.shape}
    wild = {
        suffix: None
        for suffix, count in counts.items()
        if is_dotted(suffix)
        and suffix in of_samples
        and (count < 2 or count < shard.samples / 2)
        and not (shard.numbered and is_numbered(suffix))
    }
    for suffix in wild:
        note("name.dotted").add(*places[suffix], suffix, counts[suffix])
    if wild:
        items = (item for item in runs if not is_junk(item.key))
        shard.samples += sum(item.count * merged(item.shape, wild.__contains__) for item in items)


def _numbers(shape: Shape) -> bool:
    """Return whether numbered files of one sample are next to a field without a dot: 0.jpg, 1.jpg and txt."""
    numbered = sum(is_numbered(part.suffix) for part in shape)
    return numbered > 1 and any("." not in part.suffix for part in shape)


def merged(shape: Shape, is_wild: Callable[[str], bool]) -> int:
    """Return how many samples dots in base names have merged into one run, the one that shows not counted.

    ``img.v1.jpg``, ``img.v1.txt`` and ``img.v2.jpg`` are one run with the key ``img``, and were two samples.
    """
    names = {part.suffix.lower() for part in shape}
    # Beside plain fields an odd one, such as thumb.jpg in one sample of many, is a field like others.
    return len({name.rpartition(".")[0] for name in names}) - 1 if names and all(map(is_wild, names)) else 0
