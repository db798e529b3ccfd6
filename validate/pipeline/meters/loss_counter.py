"""Counts the samples that each stage of a process loses, repeats or combines.

It compares what a stage got with what it yields.
"""

from collections.abc import Callable, Collection, Sequence

from ...tracing.pipeline_stages import bare_name, module_of
from ..values.elements import is_blank
from .combined_samples import RecentInputs
from .followed_keys import FollowedKeys
from .followed_stages import passes_on
from .reported_stage import BLANK, COMBINED, SILENT, LostSamples, ReportedStage

# Stages of webdataset that take a sample only after they
# have yielded the one before, or left it out.
_ONE_BY_ONE = frozenset(
    "select rsample map map_dict map_tuple to_tuple rename rename_keys decode".split()
)

KeyAndShard = tuple[str, str]


class LossCounter:
    """Adds losses to the counts of stages.

    Args:
        code: of each stage, the object of the user or of a library.
        stages: with the counts, which are changed.
        keys: of the samples in the shards.
        last_input: returns key and shard of the last sample that a stage got, by the index of the
            stage.
    """

    def __init__(
        self,
        code: Sequence[object],
        stages: Sequence[ReportedStage],
        keys: Collection[str],
        last_input: Callable[[int], KeyAndShard],
    ) -> None:
        self._stages = stages
        self._shard_keys = keys
        self._last_input = last_input
        self._keys = FollowedKeys()
        # Of stages that take one sample after the other: the one that is not yielded yet.
        self._in_hand: dict[int, KeyAndShard] = {}
        self._one_by_one: set[int] = set()
        # Of each stage whose own code may put several samples into one element.
        self._recent_inputs: dict[int, RecentInputs] = {}
        for index, stage in enumerate(code):
            if _takes_one_by_one(stage):
                self._one_by_one.add(index)
            if index > 0 and not passes_on(stage):
                self._recent_inputs[index] = RecentInputs()

    def count_item(self, index: int, item: object, first: int) -> bool:
        """Count what an item that a stage has yielded shows; return whether it is blank.

        A blank item holds no sample.

        Args:
            index: of the stage.
            item: which is the input of the next stage.
            first: index of the first stage that yields samples.
        """
        stage = self._stages[index]
        self._follow_key(index, item, first)
        if stage.kind == "sample":
            self._count_combined(index, item)
        in_hand = self._in_hand.pop(index, None)
        if is_blank(item) and stage.kind == "sample" and index >= first:
            # It was counted as an output.
            stage.out -= 1
            self._lose(index, BLANK, in_hand or self._last_input(index))
            return True
        next_index = index + 1
        if next_index in self._one_by_one:
            # It asks for a sample: so it has left out the one before, if it has not yielded it.
            self._leave_out(next_index)
            self._in_hand[next_index] = stage.key, stage.shard
        return False

    def count_loss_by_error(self, index: int, error_type: str, loss: LostSamples) -> bool:
        """Count a sample that a stage has lost by an exception.

        Returns whether it is the first loss by an exception of this type.
        """
        self._in_hand.pop(index, None)
        return self._stages[index].add_loss(error_type, loss)

    def end_stages(self) -> None:
        """Count the samples that stages which have ended got last, and did not yield."""
        for index in list(self._in_hand):
            if self._stages[index].ended:
                self._leave_out(index)

    def _follow_key(self, index: int, item: object, first: int) -> None:
        """Count a sample whose key is visible.

        Also counts it as repeated if the stage yields it more often than it got it.
        """
        if not isinstance(item, dict):
            return
        key = item.get("__key__")
        if not isinstance(key, str):
            return
        was_input, is_repeated = self._keys.note_yielded(index, key, item.get("__url__"))
        begins_here = index == first and (not self._shard_keys or key in self._shard_keys)
        stage = self._stages[index]
        stage.with_input_key += was_input or begins_here
        stage.repeated += is_repeated

    def _count_combined(self, index: int, item: object) -> None:
        """Count the samples that a stage has put into the element of another."""
        stage = self._stages[index]
        if index in self._recent_inputs:
            for key_and_shard in self._recent_inputs[index].combined_in(item):
                self._lose(index, COMBINED, key_and_shard)
        if index + 1 in self._recent_inputs:
            self._recent_inputs[index + 1].add(item, stage.key, stage.shard)

    def _leave_out(self, index: int) -> None:
        """Count the sample that a stage got and has not yielded, if it has one."""
        in_hand = self._in_hand.pop(index, None)
        if in_hand is not None:
            self._lose(index, SILENT, in_hand)

    def _lose(self, index: int, name: str, key_and_shard: KeyAndShard) -> None:
        """Count a sample that a stage has lost without an exception.

        ``name``: BLANK, COMBINED or SILENT.
        """
        stage = self._stages[index]
        key, shard = key_and_shard
        stage.add_loss(name, LostSamples(name, stage.line, key, shard))


def _takes_one_by_one(stage: object) -> bool:
    function = getattr(stage, "f", None)
    return bare_name(stage) in _ONE_BY_ONE and module_of(function).startswith("webdataset.")
