"""A run over copies of a few samples.

It shows which columns of the output depend on the sample alone.

The output of a pipeline without keys shows different samples only if no sample gives different
values: random crops, flips and parts of a picture are as different as the pictures of different
samples. So the pipeline runs once more, over small shards with copies of ten samples, a different
number of each, mixed. A column that has as many values as there were samples, each as often as
there were copies, is determined by the sample. In any other column values show nothing.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence

from wdsflow.shards.scratch import scratch

from ..reports.run_lists import read_rows
from ..run.run_pipeline import run_pipeline
from ..run.run_request import RunRequest
from ..sample_copies import TAR_END, SampleLocation, SmallTars, numbered_keys, renamed
from ..user_code.load_pipeline import PipelineError
from ..values.marks import OPAQUE
from ..values.rows import Row

# Of each sample another number of copies, so that values which came from one sample cannot be taken
# for those of two: two values of one sample come equally often, and no two numbers are equal.
COPIES = (2, 3, 5, 7, 10, 15, 23, 34, 51, 77)
_MOST_COPIES = 16 * sum(COPIES)
# Of the samples that are read, to choose those that differ.
_CANDIDATES = 4 * len(COPIES)
_MOST_TARS = 8
# A shorter field, such as a label, may be equal in many samples.
_LONG_FIELD_BYTES = 16
_SECONDS = 60.0
# The share of the copies that has to come out.
_LEAST_OUT = 0.75
# Copies for each one that unfilled batches may leave out.
_COPIES_PER_UNFILLED = 10

# Field and content of each member of a sample.
_Members = list[tuple[str, bytes]]


def single_valued_columns(
    spec: str,
    locations: Sequence[SampleLocation],
    unfilled: int,
    patience: float,
    *,
    allow_pipe: bool,
) -> frozenset[str]:
    """Return the columns of which each sample yields one value.

    To find them, a pipeline runs over copies of some samples.

    Args:
        spec: ``module:object`` or ``train.py:object``, see ``load_object`` and ``build``.
        locations: of all samples, in order; at least one.
        unfilled: samples that batches which are not full may leave out.
        patience: seconds without any step after which it hangs.
        allow_pipe: whether shards may be the output of commands.

    Returns:
        Names of columns; none if the pipeline does not run over the copies to its end.
    """
    with scratch("copies") as tars_folder, scratch("run") as run_folder:
        tars = SmallTars(tars_folder, allow_pipe=allow_pipe)
        samples = _different_samples(locations, tars)
        if not samples:
            return frozenset()
        factor = max(1, math.ceil(_COPIES_PER_UNFILLED * unfilled / sum(COPIES)))
        copies = [factor * count for count in COPIES[-len(samples) :]]
        if sum(copies) > _MOST_COPIES:
            return frozenset()
        # The tars have the names of shards, which the pipeline may look at.
        shards = list(dict.fromkeys(location.shard for location in locations))[:_MOST_TARS]
        # All tars have as many samples: a pipeline may read them side by side.
        copies[-1] -= sum(copies) % len(shards)
        urls = _write_tars(samples, copies, locations[0].key, shards, tars)
        request = RunRequest(
            tuple(urls), str(run_folder), seconds=_SECONDS, shard_samples=sum(copies)
        )
        try:
            run = run_pipeline(spec, request, patience)
        except PipelineError:
            return frozenset()
        if run.end != "ended" or run.limit:
            return frozenset()
        return single_valued(read_rows(run_folder), copies, unfilled)


def _different_samples(locations: Sequence[SampleLocation], tars: SmallTars) -> list[_Members]:
    """Return the members of samples with different contents and the usual fields.

    They come from all parts of the set.

    Equal captions of two samples would give values as often as both have copies. So samples that
    differ in each field come first, and then those that differ in any.
    """
    differ_in_all: list[_Members] = []
    differ_in_any: list[_Members] = []
    long_fields = set[bytes]()
    contents = set[tuple[bytes, ...]]()
    for members in _usual_samples(locations, tars):
        content = tuple(data for _, data in members)
        long_fields_of_sample = {data for data in content if len(data) >= _LONG_FIELD_BYTES}
        if long_fields.isdisjoint(long_fields_of_sample):
            differ_in_all.append(members)
        elif content not in contents:
            differ_in_any.append(members)
        long_fields |= long_fields_of_sample
        contents.add(content)
    return [*differ_in_all, *differ_in_any][: len(COPIES)]


def _usual_samples(locations: Sequence[SampleLocation], tars: SmallTars) -> list[_Members]:
    """Return samples from all parts of the set which have the fields that most have."""
    step = max(1, len(locations) // _CANDIDATES)
    candidates = list(locations[step // 2 :: step][:_CANDIDATES])
    # Each shard is opened once.
    tars.read(candidates)
    by_fields: dict[tuple[str, ...], list[_Members]] = {}
    for location in candidates:
        members = tars.members(location)
        if members:
            fields = tuple(sorted(field for field, _ in members))
            by_fields.setdefault(fields, []).append(members)
    return max(by_fields.values(), key=len, default=[])


def _write_tars(
    samples: Sequence[_Members],
    copies: Sequence[int],
    key: str,
    shards: Sequence[str],
    tars: SmallTars,
) -> list[str]:
    """Write copies of samples into tars, and return their paths.

    Args:
        samples: to be copied.
        copies: of each sample.
        key: the keys of the copies look like it.
        shards: the tars have their names.
        tars: writes them.
    """
    order: list[int] = []
    for number, count in enumerate(copies):
        order += [number] * count
    # Neighbours are mixed, so that a pipeline which makes
    # one element of two samples gives many values.
    random.Random(0).shuffle(order)
    pieces = []
    for copy_key, number in zip(numbered_keys(key, len(order)), order, strict=True):
        pieces.append(renamed(copy_key, samples[number]))
    paths = []
    for index, shard in enumerate(shards):
        data = b"".join(pieces[index :: len(shards)])
        paths.append(tars.write(data + TAR_END, shard))
    return paths


def single_valued(rows: Sequence[Row], copies: Sequence[int], unfilled: int) -> frozenset[str]:
    """Return the columns in which each sample has one value.

    Args:
        rows: of the output.
        copies: of each sample.
        unfilled: how many copies batches that are not full may leave out.
    """
    columns: dict[str, Counter[str]] = {}
    for row in rows:
        for name, mark in row.items():
            columns.setdefault(name, Counter())[mark] += 1
    names = set()
    for name, values in columns.items():
        is_readable = not any(mark.startswith(OPAQUE) for mark in values)
        if is_readable and _has_value_for_each(values.values(), copies, unfilled):
            names.add(name)
    return frozenset(names)


def _has_value_for_each(counts: Iterable[int], copies: Sequence[int], unfilled: int) -> bool:
    """Return whether values that come so often are one for each of the samples.

    Args:
        counts: of each value.
        copies: of each sample.
        unfilled: how many copies may be left out in each pass.
    """
    value_counts = sorted(counts, reverse=True)
    # A pipeline may read all shards several times.
    passes = max(1, round(sum(value_counts) / sum(copies)))
    unmatched = sorted((passes * count for count in copies), reverse=True)
    if len(value_counts) > len(unmatched) or sum(value_counts) < _LEAST_OUT * sum(unmatched):
        return False
    left_out = 0
    for count in value_counts:
        # The sample with the fewest copies that may have given the value.
        possible = [number for number in unmatched if number >= count]
        if not possible:
            return False
        unmatched.remove(possible[-1])
        left_out += possible[-1] - count
    return left_out <= unfilled * passes
