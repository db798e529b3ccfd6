"""A run over copies of a few samples: it shows which columns of the output are determined by the sample alone.

The output of a pipeline without keys shows different samples only if no sample gives different values: random crops, flips and
parts of a picture are as different as the pictures of different samples. So the pipeline runs once more, over small
shards with copies of ten samples, a different number of each, mixed. A column that has as many values as there were samples,
each as often as there were copies, is determined by the sample. In any other column values show nothing.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence

from wdsflow.shards.scratch import scratch

from .load_pipeline import PipelineError
from .marks import OPAQUE
from .rows import Row
from .run_lists import read_rows
from .run_pipeline import run_pipeline
from .run_request import RunRequest
from .sample_copies import TAR_END, SampleLocation, SmallTars, numbered_keys, renamed

# Of each sample another number of copies, so that values which came from one sample cannot be taken for those of two:
# two values of one sample come equally often, and no two numbers are equal.
COPIES = (2, 3, 5, 7, 10, 15, 23, 34, 51, 77)
_MOST_TARS = 8
# A shorter field may be equal in many samples.
_LABEL_BYTES = 16
_MOST_COPIES = 16 * sum(COPIES)
_SECONDS = 60.0
# The share of the copies that has to come out.
_LEAST_OUT = 0.75
# So many times the samples that unfilled batches may leave out.
_BATCHES = 10


def single_valued_columns(
    spec: str, places: Sequence[SampleLocation], rest: int, patience: float, *, allow_pipe: bool
) -> frozenset[str]:
    """Run a pipeline over copies of some samples, and return the columns of which each sample gives one value.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``find`` and ``build``.
        places: of all samples, in order.
        rest: samples that batches which are not full may leave out.
        patience: seconds without any step after which it hangs.
        allow_pipe: whether shards may be the output of commands.

    Returns:
        Names of columns; none if the pipeline does not run over the copies to its end.
    """
    with scratch("copies") as shards, scratch("run") as folder:
        tars = SmallTars(shards, allow_pipe=allow_pipe)
        samples = _different_samples(places, tars)
        factor = max(1, math.ceil(_BATCHES * rest / sum(COPIES)))
        copies = [factor * count for count in COPIES[-len(samples) :]]
        if not samples or sum(copies) > _MOST_COPIES:
            return frozenset()
        shards_written = list(dict.fromkeys(place.shard for place in places))[:_MOST_TARS]
        # All shards have as many samples: a pipeline may read them side by side.
        copies[-1] -= sum(copies) % len(shards_written)
        urls = _write(samples, copies, places[0].key, shards_written, tars)
        request = RunRequest(tuple(urls), str(folder), seconds=_SECONDS, shard_samples=sum(copies))
        try:
            run = run_pipeline(spec, request, patience)
        except PipelineError:
            return frozenset()
        if run.end != "ended" or run.limit:
            return frozenset()
        return single_valued(read_rows(folder), copies, rest)


def _different_samples(places: Sequence[SampleLocation], tars: SmallTars) -> list[list[tuple[str, bytes]]]:
    """Return the members of samples from all parts of the set, whose contents differ and whose fields are the usual ones."""
    wanted = 4 * len(COPIES)
    step = max(1, len(places) // wanted)
    candidates = list(places[step // 2 :: step][:wanted])
    tars.read(candidates)
    samples = [tars.members(place) for place in candidates]
    fields = Counter(tuple(sorted(field for field, _ in members)) for members in samples if members)
    if not fields:
        return []
    usual = fields.most_common(1)[0][0]
    samples = [members for members in samples if tuple(sorted(field for field, _ in members)) == usual]
    # Equal captions of two samples would give values as often as both have copies. So samples that differ in each
    # field are taken first, and then those that differ in any.
    in_each: list[list[tuple[str, bytes]]] = []
    in_any: list[list[tuple[str, bytes]]] = []
    files, wholes = set[bytes](), set[tuple[bytes, ...]]()
    for members in samples:
        contents = tuple(data for _, data in members)
        long = {data for data in contents if len(data) >= _LABEL_BYTES}
        if files.isdisjoint(long):
            in_each.append(members)
        elif contents not in wholes:
            in_any.append(members)
        files |= long
        wholes.add(contents)
    return [*in_each, *in_any][: len(COPIES)]


def _write(
    samples: Sequence[list[tuple[str, bytes]]], copies: Sequence[int], key: str, shards: Sequence[str], tars: SmallTars
) -> list[str]:
    """Write copies of samples into shards with the names of others, under keys like one of theirs."""
    order = [number for number, count in enumerate(copies) for _ in range(count)]
    # Neighbours are mixed, so that a pipeline which makes one element of two samples gives many values.
    random.Random(0).shuffle(order)
    pieces = []
    for name, number in zip(numbered_keys(key, len(order)), order, strict=True):
        pieces.append(renamed(name, samples[number]))
    return [tars.write(b"".join(pieces[index :: len(shards)]) + TAR_END, shard) for index, shard in enumerate(shards)]


def single_valued(rows: Sequence[Row], copies: Sequence[int], rest: int) -> frozenset[str]:
    """Return the columns in which each sample has one value.

    Args:
        rows: of the output.
        copies: of each sample.
        rest: of the copies, how many batches that are not full may leave out.
    """
    columns: dict[str, Counter[str]] = {}
    for row in rows:
        for name, mark in row.items():
            columns.setdefault(name, Counter())[mark] += 1
    names = [name for name, values in columns.items() if not any(mark.startswith(OPAQUE) for mark in values)]
    return frozenset(name for name in names if _has_one_value_each(columns[name].values(), copies, rest))


def _has_one_value_each(counts: Iterable[int], copies: Sequence[int], rest: int) -> bool:
    """Return whether values that come so often are one for each of the samples."""
    found = sorted(counts, reverse=True)
    # A pipeline may read all shards several times.
    passes = max(1, round(sum(found) / sum(copies)))
    unused = sorted((passes * count for count in copies), reverse=True)
    if len(found) > len(unused) or sum(found) < _LEAST_OUT * sum(unused):
        return False
    left_out = 0
    for count in found:
        larger = [number for number in unused if number >= count]
        if not larger:
            return False
        unused.remove(larger[-1])
        left_out += larger[-1] - count
    return left_out <= rest * passes
