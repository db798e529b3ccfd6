"""The stages of a pipeline in one process, with a meter after each, and a report of what they do."""

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ...tracing.errors import error_text, line_of
from ...tracing.logged_warnings import counting_warnings
from ...tracing.machine_faults import machine_fault
from ...tracing.meter import InputEnd, RunningStage, TraceRun, metered
from ...tracing.pipeline_stages import bare_name, is_loader, module_of
from ...tracing.pipeline_steps import Chain
from ..meters.batch_counts import BatchCounts
from ..meters.combined_samples import RecentInputs
from ..meters.followed_keys import FollowedKeys
from ..meters.followed_stages import passes_on
from ..meters.new_stages import new_stage
from ..meters.reported_stage import BLANK, COMBINED, SILENT, LostSamples, ReportedStage
from ..reports.process_position import DATASET, ProcessPosition, Role, position_path
from ..reports.process_report import Fault, Limit, ProcessReport, write_report
from ..reports.process_stacks import write_stacks_at_signal
from ..reports.sample_counts import SampleCounts
from ..reports.sample_lists import SampleLists
from ..values.elements import is_blank
from .raised_errors import cause_of, key_in_frames
from .run_request import RunRequest

# Seconds between two reports.
_PAUSE = 0.1
# Stages of webdataset that take a sample only after they have yielded the one before, or left it
# out.
_ONE_BY_ONE = frozenset(
    "select rsample map map_dict map_tuple to_tuple rename rename_keys decode".split()
)
# A run that gives nothing in as many passes over the shards is ended.
_EMPTY_PASSES = 2


def begin_reports(folder: Path, role: Role) -> ProcessPosition:
    """Return the position of this process; a signal writes the stacks of its threads, too."""
    write_stacks_at_signal(folder, role)
    return ProcessPosition(position_path(folder, role, os.getpid()))


class ReportedRun(TraceRun):
    """The stages of one process, with a report of their counts.

    Args:
        chain: the steps of the pipeline.
        role: of this process.
        request: shards and limits.
        position: of this process.
        deadline: time.monotonic() at which the input ends.
    """

    def __init__(
        self,
        chain: Chain,
        role: Role,
        request: RunRequest,
        position: ProcessPosition,
        deadline: float,
    ) -> None:
        # Its limits are in ``input_ends``.
        super().__init__(chain, samples=sys.maxsize, seconds=1.0)
        self.input_deadline = deadline
        self.deadline = float("inf")
        self.role = role
        self.request = request
        self.position = position
        self.folder = Path(request.folder)
        self.reported_stages = [
            new_stage(number, step, request.call_lines)
            for number, step in enumerate(chain.steps, 1)
        ]
        self.stages = [*self.reported_stages, RunningStage(0, "")]
        self.fault: Fault | None = None
        # How often the source began.
        self.passes = 0
        self._limit: Limit = ""
        self._report_time = 0.0

        # Of all processes with this role.
        self._counts = SampleCounts(self.folder)
        # Samples that this process has added to them.
        self._samples_counted = 0
        self._batches = BatchCounts(self.reported_stages, request.keys)
        self._lists = SampleLists(self.folder, f"{role}-{os.getpid()}", request.keys)
        self._keys = FollowedKeys()

        # An item of a map-style dataset that is being read; "" if none was.
        self._item = ""
        # Of the stage that takes one sample after the other: key and shard of the one that it has
        # not yielded yet.
        self._in_hand: dict[int, tuple[str, str]] = {}
        self._one_by_one: set[int] = set()
        # Of each stage whose own code may put several samples into one element.
        self._recent_inputs: dict[int, RecentInputs] = {}
        for index, step in enumerate(chain.steps):
            if _takes_one_by_one(step.stage):
                self._one_by_one.add(index)
            if index > 0 and not passes_on(step.stage):
                self._recent_inputs[index] = RecentInputs()

        self._has_stages = len(chain.steps) > 1 and not is_loader(chain.steps[0].stage)
        if len(chain.steps) == 1:
            # Whatever it yields, it has no shards.
            self.first = 0
        self.report()

    # What runs the stages calls these.

    def assemble(self) -> Iterable[object]:
        """Return the pipeline of the user, with meters."""
        assert self.chain.assemble is not None
        return self.chain.assemble([metered(self, index) for index in range(len(self.chain.steps))])

    def counting_warnings(self) -> AbstractContextManager[None]:
        """Count the warnings that stages log; those of a loader are counted where its dataset is read."""
        if is_loader(self.chain.steps[0].stage):
            return nullcontext()
        return counting_warnings(self, threading.current_thread())

    def begins_item(self, index: object) -> None:
        """Note that an item of a map-style dataset is read, or a list of items."""
        self._item = f"items {index}" if isinstance(index, list) else f"item {index}"
        self.position.step(0, self._item, "")

    def add_item(self, index: object) -> None:
        """List an item of a map-style dataset that was read."""
        self._lists.add_item(f"item {index}")

    def delivers(self, item: object) -> None:
        """List an element that the user's code would get."""
        if is_blank(item):
            return
        is_batch = self.reported_stages[-1].kind == "batch"
        self._lists.add_delivered(item, is_batch=is_batch, samples=self._batches.samples_in_last)

    def fail(self, error: BaseException) -> None:
        """Note the exception that ends the run."""
        # Without a stage it came between the stages, as in the pipeline's own loop; the only one of
        # a map-style dataset is 0.
        index = 0 if self._item else -1
        if self.raised is not None and self.raised[1] is error:
            index = self.raised[0]
        error = cause_of(error)
        key, shard = self.last_input(index) if index > 0 else ("", "")
        key = key or key_in_frames(error, self.request.keys) or self._item
        line = line_of(error)
        if not line and index >= 0:
            line = self.reported_stages[index].line
        self.fault = Fault(index, error_text(error), line, key, shard, machine_fault(error))

    def report(self) -> None:
        """Write the counts."""
        for index in list(self._in_hand):
            if self.stages[index].ended:
                self._count_left_out(index)
        self._report_time = time.monotonic()
        before: ReportedStage | None = None
        for stage in self.reported_stages:
            if before is not None:
                stage.inputs = before.out
                stage.input_kind = before.kind
            before = stage
        report = ProcessReport(
            role=self.role,
            pid=os.getpid(),
            stages=self.reported_stages,
            fault=self.fault,
            limit=self._limit or self.reason,
            passes=self.passes,
            stopped_early=self.stopped_early(),
            draws_shards=bool(self.chain.urls),
            repeats=self.chain.endless,
            never_ends=self.request.pass_limit.never_ends,
            without_key=self._lists.without_key,
            possible_batches=self._lists.possible_batches,
        )
        write_report(self.folder, report)

    # Meters call these.

    def switch(self, owner: int) -> int:
        """Note the position as well."""
        before = super().switch(owner)
        self._note_position()
        return before

    def begins(self, index: int) -> None:
        """End the run if the pipeline repeats after the end of its input, or repeats without any output."""
        if index > 0:
            return
        self.passes += 1
        if not self._limit and self.passes > _EMPTY_PASSES and not self.reported_stages[-1].out:
            self._limit = "empty-passes"
        # The workers of a loader may have read enough, although this process did not get as many
        # samples.
        self._limit = self._limit or self._limit_of(DATASET)
        if not self._limit and not self.reason:
            return
        if self.passes == 1:
            # Other workers have read all: no stage of this one holds a sample.
            for stage in self.stages:
                stage.ended = True
        self.refuse()

    def names_shard(self, text: str) -> bool:
        """Return whether a text that comes before any sample is a shard: other sources may yield captions."""
        return text in self.request.urls or ".tar" in text

    def samples_in(self, index: int, batch: object) -> int:
        """Return the number of samples in a batch; 0 if unknown, which is counted."""
        count = self._batches.samples_in(index, batch)
        if count is None:
            self.reported_stages[index].unclear += 1
        return count or 0

    def input_ends(self, index: int) -> InputEnd:
        """Limit the source as well, if it gives batches, or no sample ever follows."""
        limit = self._limit_of(self.role) if index == self._counted_stage else ""
        end = "samples" if limit else super().input_ends(index)
        has_samples = self.first < len(self.chain.steps)
        if not end and index == 0 and not has_samples and time.monotonic() > self.input_deadline:
            end = "time"
        self._limit = self._limit or limit or end
        return end

    def look(self, index: int, item: object) -> None:
        """Count a sample that comes out of a stage, and those that it leaves out; report from time to time."""
        stage = self.reported_stages[index]
        if len(self.chain.steps) == 1 and stage.kind != "batch":
            stage.kind = "sample"
        self._follow_key(index, item)
        if stage.kind == "sample":
            self._count_combined(index, item)
        in_hand = self._in_hand.pop(index, None)
        blank = is_blank(item) and stage.kind == "sample" and index >= self.first
        if blank:
            self._count_blank(index, in_hand or self.last_input(index))
        elif index + 1 in self._one_by_one:
            # It asks for a sample: so it has left out the one before, if it has not yielded it.
            self._count_left_out(index + 1)
            self._in_hand[index + 1] = stage.key, stage.shard
        self._add_to_counts(index, blank=blank)
        self.position.write_counts(index, stage)
        self._note_position()
        if time.monotonic() > self._report_time + _PAUSE:
            self.report()

    def swallowed(self, index: int, error: BaseException, continues: bool = True) -> None:
        """Count an error as the loss of a sample as well."""
        super().swallowed(index, error, continues)
        stage = self.reported_stages[index]
        key, shard = self.last_input(index)
        line = line_of(error) or stage.line
        loss = LostSamples(error_text(error), line, key, shard, machine_fault=machine_fault(error))
        is_first = stage.add_loss(type(error).__name__, loss)
        self._in_hand.pop(index, None)
        self.position.write_counts(index, stage)
        if is_first:
            self.report()

    def _note_position(self) -> None:
        key, shard = self.last_input(max(self.owner, 0))
        self.position.step(self.owner, key, shard)

    @property
    def _counted_stage(self) -> int:
        """The stage of which the samples count as read."""
        return 0 if self.stages[0].kind == "batch" else self.first

    def _limit_of(self, role: Role) -> Limit:
        """Return the limit that processes of one kind have reached together; "" if none."""
        read, delivered = self._counts.of(role)
        if read >= self.request.samples:
            return "samples"
        pass_limit = self.request.pass_limit
        most = pass_limit.samples
        if not delivered:
            most = min(most, pass_limit.until_output)
        return "passes" if read >= most else ""

    def _add_to_counts(self, index: int, *, blank: bool) -> None:
        """Add what was read and what came out to the counts of all processes of this kind."""
        stage = self.reported_stages[index]
        if index == self._counted_stage:
            read = max(stage.out, stage.rows) + stage.blanks
            self._counts.add(self.role, read - self._samples_counted, 0)
            self._samples_counted = read
        if index == len(self.chain.steps) - 1 and not blank:
            self._counts.add(self.role, 0, 1)

    def _follow_key(self, index: int, item: object) -> None:
        """Count a sample of which the key is visible, and one that a stage yields more often than it got it."""
        if not isinstance(item, dict):
            return
        key = item.get("__key__")
        if not isinstance(key, str):
            return
        if index == self.first and self._has_stages:
            self._lists.add_entered(item)
        was_input, is_repeated = self._keys.yields(index, key, item.get("__url__"))
        begins_here = index == self.first and (not self.request.keys or key in self.request.keys)
        stage = self.reported_stages[index]
        stage.with_input_key += was_input or begins_here
        stage.repeated += is_repeated

    def _count_combined(self, index: int, item: object) -> None:
        """Count the samples that a stage has put into the element of another."""
        stage = self.reported_stages[index]
        if index in self._recent_inputs:
            for key, shard in self._recent_inputs[index].combined_in(item):
                stage.add_loss(COMBINED, LostSamples(COMBINED, stage.line, key, shard))
        if index + 1 in self._recent_inputs:
            self._recent_inputs[index + 1].add(item, stage.key, stage.shard)

    def _count_blank(self, index: int, sample: tuple[str, str]) -> None:
        """Count an element that holds no sample as one that the stage has lost."""
        key, shard = sample
        stage = self.reported_stages[index]
        stage.out -= 1
        stage.add_loss(BLANK, LostSamples(BLANK, stage.line, key, shard))

    def _count_left_out(self, index: int) -> None:
        """Count the sample that a stage got and has not yielded, if there is one."""
        if index not in self._in_hand:
            return
        key, shard = self._in_hand.pop(index)
        stage = self.reported_stages[index]
        stage.add_loss(SILENT, LostSamples(SILENT, stage.line, key, shard))


def _takes_one_by_one(stage: object) -> bool:
    function = getattr(stage, "f", None)
    return bare_name(stage) in _ONE_BY_ONE and module_of(function).startswith("webdataset.")
