"""Facts from the shapes of a shard: its fields, repeated fields, and dots in base names."""

from collections.abc import Callable, Sequence

from .evidence import ShardEvidence, Tally
from .naming import is_dotted, is_numbered
from .runs import is_junk_run, merged
from .shapes import ShapeCount

Note = Callable[[str], Tally]


def note_shapes(shard: ShardEvidence, note: Note) -> None:
    """Count fields, repeated fields, dotted names and the samples that these hide: a shape at a time."""
    runs = sorted(shard.runs.counted(), key=lambda item: item.offset)
    counts: dict[str, int] = {}
    # Key and offset.
    first_runs: dict[str, tuple[str, int]] = {}
    for item in runs:
        lower = [part.suffix.lower() for part in item.shape]
        if len(lower) > len(set(lower)):
            note("key.duplicate-field").add(item.key, item.offset, count=item.count)
        for suffix in lower:
            counts[suffix] = counts.get(suffix, 0) + item.count
            first_runs.setdefault(suffix, (item.key, item.offset))
    _count_fields(shard, counts)
    shard.numbered = any(_has_numbered(item) for item in runs)
    # folder/._a.jpg is junk with the field _a.jpg.
    sample_runs = [item for item in runs if not is_junk_run(item.key, item.shape)]
    wild = _wild_fields(shard, sample_runs, counts)
    for suffix in wild:
        note("name.dotted").add(*first_runs[suffix], suffix, counts[suffix])
    if wild:
        is_wild = frozenset(wild).__contains__
        shard.samples += sum(item.count * merged(item.shape, is_wild) for item in sample_runs)


def _count_fields(shard: ShardEvidence, counts: dict[str, int]) -> None:
    for suffix, count in counts.items():
        shard.field_count(suffix).count += count


def _has_numbered(run: ShapeCount) -> bool:
    """Return whether files of one sample have numbers, next to a field without a dot: 0.jpg, 1.jpg and txt."""
    suffixes = [part.suffix for part in run.shape]
    if sum(map(is_numbered, suffixes)) < 2:
        return False
    return any("." not in suffix for suffix in suffixes)


def _wild_fields(
    shard: ShardEvidence, sample_runs: Sequence[ShapeCount], counts: dict[str, int]
) -> list[str]:
    """Return the fields that are the rest of a dotted base name.

    A field such as input.jpg is in most samples; the rest of a base name in one or a few.
    """
    fields = {part.suffix.lower() for item in sample_runs for part in item.shape}
    wild = []
    for suffix, count in counts.items():
        if not is_dotted(suffix) or suffix not in fields:
            continue
        if shard.numbered and is_numbered(suffix):
            continue
        if count < 2 or count < shard.samples / 2:
            wild.append(suffix)
    return wild
