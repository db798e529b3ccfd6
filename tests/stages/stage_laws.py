"""The laws of all stages as a test to call, for custom stages too."""

import copy
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass

from wdsflow.stages import Pipeline, Stage
from wdsflow.stages.base import Sample


def assert_stage_laws(
    stage: Stage | Pipeline,
    samples: Sequence[Sample],
    *,
    ordered: bool = True,
    holds_back: bool = False,
) -> list[Sample]:
    """Raise AssertionError unless a stage keeps the laws on these samples; return its output.

    It is a frozen, hashable dataclass that can be pickled. It is lazy: it pulls nothing before the
    first output, and, unless it ``holds_back``, nothing beyond the sample that it yields. Its
    counts add up. A second pass over equal samples yields equal samples. It leaves the values that
    it was given as they were. Unless not ``ordered``, samples come out in the order in which they
    went in.
    """
    assert is_dataclass(stage), "a stage is a dataclass"
    _check_frozen(stage)
    twin = pickle.loads(pickle.dumps(stage))
    assert (twin, hash(twin)) == (stage, hash(stage)), "a stage equals its copy in another process"
    assert not twin.counts.seen, "a copy starts counting at 0"

    before = copy.deepcopy(list(samples))
    pulled: list[Sample] = []

    def source() -> Iterator[Sample]:
        for sample in samples:
            pulled.append(sample)
            yield dict(sample)

    outputs = []
    running = twin(source())
    assert pulled == [], "a stage pulls nothing before it is asked"
    for output in running:
        outputs.append(output)
        if not holds_back:
            early = keys_of([output])[-1] in keys_of(pulled[-1:])
            assert early, "a stage yields a sample before it pulls the next"
    _check_counts(twin, list(samples), outputs)
    if ordered:
        given = iter(keys_of(samples))
        assert all(key in given for key in keys_of(outputs)), (
            "samples come out in the order in which they went in"
        )
    assert same(list(samples), before), "the values that went in are as they were"
    again = pickle.loads(pickle.dumps(stage))
    for passes, other in (("second", twin), ("fresh", again)):
        assert same(list(other(dict(sample) for sample in samples)), outputs), (
            f"a {passes} pass yields the same"
        )
    return outputs


def keys_of(items: Iterable[Sample]) -> list[str]:
    """Return the keys of samples, or of the samples in batches."""
    return [
        key
        for item in items
        for key in (item["__key__"] if isinstance(item["__key__"], list) else [item["__key__"]])
    ]


def same(one: object, other: object) -> bool:
    """Return whether two values are equal, arrays, tensors and Pillow images by content."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "numpy") and hasattr(other, "numpy"):
        one, other = one.numpy(), other.numpy()
    if hasattr(one, "tobytes") and hasattr(other, "tobytes"):
        looks = [
            (getattr(value, "shape", None), getattr(value, "mode", None)) for value in (one, other)
        ]
        return looks[0] == looks[1] and bool(one.tobytes() == other.tobytes())
    return bool(one == other)


def _check_frozen(stage: Stage | Pipeline) -> None:
    name = fields(stage)[0].name
    try:
        setattr(stage, name, getattr(stage, name))
    except AttributeError:
        return
    raise AssertionError("a stage is frozen")


def _check_counts(stage: Stage | Pipeline, samples: list[Sample], outputs: list[Sample]) -> None:
    counts = stage.counts
    total = counts.kept + counts.dropped.total() + counts.failed.total()
    assert counts.seen == total, f"seen {counts.seen} is not the sum of what was counted, {total}"
    assert counts.seen == len(keys_of(samples)), "all that went in is counted as seen"
    assert counts.kept == len(keys_of(outputs)), "all that came out is counted as kept"
