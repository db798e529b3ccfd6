"""The stages of a pipeline in one process, with a meter after each, and a report of what they do.

A ``ReportedRun`` is the state that the meters of a process share. The code that
runs the stages calls its methods ``assemble`` to ``report``; the meters call those below, at each
item.
"""

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
from ...tracing.meter import metered
from ...tracing.pipeline_stages import is_loader
from ...tracing.pipeline_steps import Chain
from ...tracing.stage_trace import RunningStage
from ...tracing.trace_run import InputEnd, TraceRun
from ..meters.batch_counts import BatchCounts
from ..meters.loss_counter import LossCounter
from ..meters.new_stages import new_stage
from ..meters.reported_stage import LostSamples, ReportedStage
from ..reports.process_position import DATASET, ProcessPosition, Role, position_path
from ..reports.process_report import Fault, Limit, ProcessReport, write_report
from ..reports.process_stacks import write_stacks_at_signal
from ..reports.sample_lists import SampleLists
from ..values.elements import is_blank
from .input_limits import InputLimits
from .raised_errors import cause_of, key_in_frames
from .run_request import RunRequest

# Seconds between two reports.
_PAUSE = 0.1
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
        # Its limits are in ``input_end_reason``.
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
        # The limit that ended the input.
        self._limit: Limit = ""
        self._limits = InputLimits(request, role)
        self._report_time = 0.0
        # An item of a map-style dataset that is being read; "" if none was.
        self._item = ""

        code = [step.stage for step in chain.steps]
        self._losses = LossCounter(code, self.reported_stages, request.keys, self.last_input)
        self._batches = BatchCounts(self.reported_stages, request.keys)
        self._lists = SampleLists(self.folder, f"{role}-{os.getpid()}", request.keys)

        self._is_one_stage = len(code) == 1
        self._has_stages = len(code) > 1 and not is_loader(code[0])
        if self._is_one_stage:
            # Whatever it yields, it has no shards.
            self.first_with_samples = 0
        self.report()

    # What runs the stages calls these.

    def assemble(self) -> Iterable[object]:
        """Return the pipeline of the user, with meters."""
        assert self.chain.assemble is not None
        return self.chain.assemble([metered(self, index) for index in range(len(self.chain.steps))])

    def counting_warnings(self) -> AbstractContextManager[None]:
        """Count the warnings that stages log.

        Those of a loader are counted where its dataset is read.
        """
        if is_loader(self.chain.steps[0].stage):
            return nullcontext()
        return counting_warnings(self, threading.current_thread())

    def note_item_start(self, index: object) -> None:
        """Note that an item of a map-style dataset is read, or a list of items."""
        self._item = f"items {index}" if isinstance(index, list) else f"item {index}"
        self.position.step(0, self._item, "")

    def add_item(self, index: object) -> None:
        """List an item of a map-style dataset that was read."""
        self._lists.add_item(f"item {index}")

    def list_delivered(self, item: object) -> None:
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
        self._losses.end_stages()
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
            limit=self._limit or self.end_reason,
            passes=self.passes,
            stage_ended_early=self.stage_ended_early(),
            draws_shards=bool(self.chain.urls),
            repeats=self.chain.endless,
            never_ends=self.request.pass_limit.never_ends,
            without_key=self._lists.without_key,
            possible_batches=self._lists.possible_batches,
        )
        write_report(self.folder, report)

    # Meters call these.

    def switch_timer(self, owner: int) -> int:
        """Note the position as well."""
        before = super().switch_timer(owner)
        self._note_position()
        return before

    def on_pass_start(self, index: int) -> None:
        """End the run if the pipeline repeats after the end of its input.

        Also ends it if the pipeline repeats without any output.
        """
        if index > 0:
            return
        self.passes += 1
        if not self._limit and self.passes > _EMPTY_PASSES and not self.reported_stages[-1].out:
            self._limit = "empty-passes"
        # The workers of a loader may have read enough,
        # although this process did not get as many samples.
        self._limit = self._limit or self._limits.reached_by(DATASET)
        if not self._limit and not self.end_reason:
            return
        if self.passes == 1:
            # Other workers have read all: no stage of this one holds a sample.
            for stage in self.stages:
                stage.ended = True
        self.end_run()

    def is_shard_name(self, text: str) -> bool:
        """Return whether a text that comes before any sample is a shard.

        Other sources may yield captions.
        """
        return text in self.request.urls or ".tar" in text

    def samples_in(self, index: int, batch: object) -> int:
        """Return the number of samples in a batch; 0 if unknown, which is counted."""
        count = self._batches.samples_in(index, batch)
        if count is None:
            self.reported_stages[index].unclear += 1
        return count or 0

    def input_end_reason(self, index: int) -> InputEnd:
        """Limit the source as well, if it gives batches, or no sample ever follows."""
        limit: Limit = ""
        if index == self._counted_stage:
            limit = self._limits.reached_by(self.role)
        end = "samples" if limit else super().input_end_reason(index)
        has_samples = self.first_with_samples < len(self.chain.steps)
        if not end and index == 0 and not has_samples and time.monotonic() > self.input_deadline:
            end = "time"
        self._limit = self._limit or limit or end
        return end

    def on_item(self, index: int, item: object) -> None:
        """Count a sample that comes out of a stage, and those that the stage leaves out.

        From time to time, a report is written.
        """
        stage = self.reported_stages[index]
        if self._is_one_stage and stage.kind != "batch":
            stage.kind = "sample"
        if index == self.first_with_samples and self._has_stages:
            self._list_entered(item)
        is_blank_item = self._losses.count_item(index, item, self.first_with_samples)
        if index == self._counted_stage:
            self._limits.set_read(max(stage.out, stage.rows) + stage.blanks)
        if index == len(self.chain.steps) - 1 and not is_blank_item:
            self._limits.add_delivered()
        self.position.write_counts(index, stage)
        self._note_position()
        if time.monotonic() > self._report_time + _PAUSE:
            self.report()

    def count_swallowed_error(
        self, index: int, error: BaseException, continues: bool = True
    ) -> None:
        """Count an error as the loss of a sample as well."""
        super().count_swallowed_error(index, error, continues)
        stage = self.reported_stages[index]
        key, shard = self.last_input(index)
        line = line_of(error) or stage.line
        loss = LostSamples(error_text(error), line, key, shard, machine_fault=machine_fault(error))
        is_first = self._losses.count_loss_by_error(index, type(error).__name__, loss)
        self.position.write_counts(index, stage)
        if is_first:
            self.report()

    @property
    def _counted_stage(self) -> int:
        """The stage of which the samples count as read."""
        return 0 if self.stages[0].kind == "batch" else self.first_with_samples

    def _note_position(self) -> None:
        key, shard = self.last_input(max(self.running, 0))
        self.position.step(self.running, key, shard)

    def _list_entered(self, item: object) -> None:
        """List a sample that enters, if its key is visible."""
        if isinstance(item, dict) and isinstance(item.get("__key__"), str):
            self._lists.add_entered(item)
