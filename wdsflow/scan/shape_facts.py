"""Facts from the shapes of a shard: its fields, repeated fields, and dots in base names."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from .evidence import ShardEvidence, Tally
from .naming import is_dotted, is_numbered
from .runs import count_merged_samples, is_junk_run
from .shapes import ShapeCount

Note = Callable[[str], Tally]


def note_shapes(shard: ShardEvidence, note: Note) -> None:
    """Count fields, repeated fields, dotted names and the samples hidden by them.

    This is done once for each shape.
    """
    runs = sorted(shard.runs.shape_counts(), key=attrgetter("offset"))
    counts: dict[str, int] = {}
    first_runs: dict[str, ShapeCount] = {}
    for run in runs:
        suffixes = [part.suffix.lower() for part in run.shape]
        if len(suffixes) > len(set(suffixes)):
            note("key.duplicate-field").add(run.key, run.offset, count=run.count)
        for suffix in suffixes:
            counts[suffix] = counts.get(suffix, 0) + run.count
            first_runs.setdefault(suffix, run)
    for suffix, count in counts.items():
        shard.field_count(suffix).count += count
    shard.numbered = any(_has_numbered(run) for run in runs)
    # folder/._a.jpg is junk with the field _a.jpg.
    sample_runs = [run for run in runs if not is_junk_run(run.key, run.shape)]
    wild = _wild_fields(shard, sample_runs, counts)
    for suffix in wild:
        first = first_runs[suffix]
        note("name.dotted").add(first.key, first.offset, suffix, counts[suffix])
    if wild:
        # Each of these names hides samples that readers merge.
        is_wild = frozenset(wild).__contains__
        for run in sample_runs:
            shard.samples += run.count * count_merged_samples(run.shape, is_wild)


def _has_numbered(run: ShapeCount) -> bool:
    """Return whether a sample has numbered files next to a field without a dot.

    For example 0.jpg, 1.jpg and txt.
    """
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
    fields: set[str] = set()
    for run in sample_runs:
        fields.update(part.suffix.lower() for part in run.shape)
    wild = []
    for suffix, count in counts.items():
        if not is_dotted(suffix) or suffix not in fields:
            continue
        if shard.numbered and is_numbered(suffix):
            continue
        if count < 2 or count < shard.samples / 2:
            wild.append(suffix)
    return wild
