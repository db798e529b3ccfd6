"""How the samples of a run that resumes differ from those that it must hand out."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.text.words import how_many

from ..values.rows import example_key_text

_OTHER_ORDER = "another order than without the interruption"

# What identifies the samples of one epoch, in order.
SampleIds = list[tuple[str, ...]]


class ExpectedSamples(NamedTuple):
    """What an undisturbed run hands out around the position of a state."""

    # Before the position, in its epoch.
    before: SampleIds
    # After the position, in the same epoch.
    rest: SampleIds
    next_epoch: SampleIds


class Difference(NamedTuple):
    """A difference between a resumed run and an undisturbed one."""

    message: str
    # Whether it certainly is a fault: an order that changes from run to run has differences, too.
    is_fault: bool


def difference(
    expected: ExpectedSamples, epochs: Sequence[SampleIds], *, ended: bool, same_order: bool
) -> Difference | None:
    """Return how a resumed run differs from what is expected; None if it does not.

    Args:
        expected: of the state that the run resumed from.
        epochs: of the resumed run; the first is what remained of the interrupted one.
        ended: whether all its epochs ended by themselves.
        same_order: whether two undisturbed runs give the same samples in the same order.
    """
    if _continues(expected, epochs, ended=ended):
        return None
    not_empty = [epoch for epoch in epochs if epoch]
    if not not_empty:
        return Difference("it hands out nothing", is_fault=True)
    first = not_empty[0]
    second = not_empty[1] if len(not_empty) > 1 else []
    if not expected.rest:
        if Counter(second) == Counter(expected.next_epoch) != Counter(first):
            return Difference(
                f"{how_many(len(first), 'sample')} repeated before the next epoch", is_fault=True
            )
        # Nothing remained of the interrupted epoch: the first one of the run must be the next one.
        expected = ExpectedSamples([], expected.next_epoch, [])
        order = f"the next epoch has {_OTHER_ORDER}"
    else:
        order = f"the samples come in {_OTHER_ORDER}"
    if _begins_again(expected, first, ended=ended):
        samples = how_many(len(expected.before), "sample")
        return Difference(f"the epoch begins again: {samples} come a second time", is_fault=True)
    message = _lost_and_repeated(expected, first, ended=ended)
    if message:
        return Difference(message, is_fault=same_order or ended)
    if same_order and first != expected.rest[: len(first)]:
        return Difference(order, is_fault=True)
    return _difference_of_next_epoch(
        expected.next_epoch, second, ended=ended, same_order=same_order
    )


def _continues(expected: ExpectedSamples, epochs: Sequence[SampleIds], *, ended: bool) -> bool:
    """Return whether a run hands out exactly what is expected, as far as both go."""
    resumed: SampleIds = []
    for epoch in epochs:
        resumed += epoch
    following = expected.rest + expected.next_epoch
    if ended and len(resumed) < len(following):
        return False
    if not resumed and following:
        return False
    compared = min(len(resumed), len(following))
    return resumed[:compared] == following[:compared]


def _begins_again(expected: ExpectedSamples, epoch: SampleIds, *, ended: bool) -> bool:
    """Return whether a run hands out the interrupted epoch from its start."""
    before = expected.before
    if not before:
        return False
    if epoch[: len(before)] == before:
        return True
    return ended and Counter(epoch) == Counter(before + expected.rest)


def _lost_and_repeated(expected: ExpectedSamples, epoch: SampleIds, *, ended: bool) -> str:
    """Return how many samples are lost, and how many are repeated; "" if none are.

    Repeated samples are those from before the position. Lost samples are counted only if the run
    ended.
    """
    additional = Counter(epoch) - Counter(expected.rest)
    missing = Counter(expected.rest) - Counter(epoch)
    # Without samples before the position, those of the run itself may be repeated.
    possible = set(expected.before or epoch)
    repeated: Counter[tuple[str, ...]] = Counter()
    for sample, count in additional.items():
        if sample in possible:
            repeated[sample] = count
    messages = []
    if repeated:
        messages.append(
            f"{how_many(repeated.total(), 'sample')} repeated{example_key_text(repeated)}"
        )
    # A run that was ended has not handed out all of its samples.
    if missing and ended:
        messages.append(f"{how_many(missing.total(), 'sample')} lost{example_key_text(missing)}")
    return " and ".join(messages)


def _difference_of_next_epoch(
    expected: SampleIds, epoch: SampleIds, *, ended: bool, same_order: bool
) -> Difference | None:
    """Return how the epoch after the interrupted one differs; None if it does not."""
    if ended and expected and len(epoch) != len(expected):
        numbers = f"{how_many(len(epoch), 'sample')} instead of {len(expected):,}"
        return Difference(f"the next epoch has {numbers}", is_fault=True)
    if same_order and epoch != expected[: len(epoch)]:
        return Difference(f"the next epoch has {_OTHER_ORDER}", is_fault=True)
    return None
