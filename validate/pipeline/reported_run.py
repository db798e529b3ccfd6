"""The stages of a pipeline in one process, with a meter after each, and a report of what they do."""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import cast

from ..tracing.errors import code_line, error_text, line_of, machine_fault
from ..tracing.meter import InputEnd, SeenStage, TraceRun, metered
from ..tracing.pipeline_steps import Chain, PipelineStep, bare_name, is_loader, module_of
from ..tracing.trace import listening
from .combined_samples import RecentInputs
from .elements import is_blank, lengths_of, samples_in
from .followed_keys import FollowedKeys
from .followed_stages import calls_function, passes_on
from .iterables import Items, is_map_style
from .noted_samples import ProcessNotes
from .run_reports import (
    BLANK,
    COMBINED,
    DATASET,
    STACKS_SIGNAL,
    Fault,
    Limit,
    LostSamples,
    ProcessPosition,
    ProcessReport,
    ReportedStage,
    RunRequest,
    write_report,
)
from .sample_counts import SampleCounts
from .user_process import cause_of, key_in_frames

# Seconds between two reports.
_EVERY = 0.1
# Stages of webdataset that take a sample only after they have yielded the one before, or left it out.
_ONE_BY_ONE = frozenset("select rsample map map_dict map_tuple to_tuple rename rename_keys decode".split())
# Without any output, after which a run ends.
_FEW_PASSES = 2


def begin_reports(folder: Path, place: str) -> ProcessPosition:
    """Return the position of this process; a signal writes the stacks of its threads, too."""
    stacks = (folder / f"{place}-{os.getpid()}.stacks").open("w")
    faulthandler.register(STACKS_SIGNAL, stacks, all_threads=True)
    return ProcessPosition(folder / f"{place}-{os.getpid()}.position")


class ReportedRun(TraceRun):
    """The stages of one process, with a report of their counts."""

    def __init__(self, chain: Chain, place: str, request: RunRequest, position: ProcessPosition, until: float) -> None:
        # Its limits are in ``input_ends``.
        super().__init__(chain, sys.maxsize, 1.0)
        self.soft, self.deadline = until, float("inf")
        self.place_name, self.request, self.position = place, request, position
        self.folder = Path(request.folder)
        self.seen = [
            *(_stage(number, step, request.calls) for number, step in enumerate(chain.steps, 1)),
            SeenStage(0, ""),
        ]
        self.fault: Fault | None = None
        self._limit: Limit = ""
        self._counts = SampleCounts(self.folder)
        # Samples that this process has added to them.
        self._counted = 0
        self.passes = 0
        if len(chain.steps) == 1:
            # Whatever it yields, it has no shards.
            self.first = 0
        self._has_stages = len(chain.steps) > 1 and not is_loader(chain.steps[0].stage)
        # Of a map-style dataset, which is being taken.
        self._item = ""
        self._reported = 0.0
        name = f"{place}-{os.getpid()}"
        self._noted = ProcessNotes(self.folder, name, request.keys)
        self._keys = FollowedKeys()
        # Samples in the latest batch that came out.
        self._last_batch: int | None = None
        self._one_by_one = {index for index, step in enumerate(chain.steps) if _takes_one_by_one(step.stage)}
        # Of a stage: what its full batches are lists of, and how many.
        self._full: dict[int, tuple[str, int]] = {}
        # By such a stage: key and shard of the sample that it has neither yielded nor left out.
        self._in_hand: dict[int, tuple[str, str]] = {}
        # Of each stage whose own code may put several samples into one element.
        opaque = [index for index in range(1, len(chain.steps)) if not passes_on(chain.steps[index].stage)]
        self._recent = {index: RecentInputs() for index in opaque}
        self.report()

    def assemble(self) -> Iterable[object]:
        """Return the pipeline of the user, with meters."""
        assert self.chain.assemble is not None
        return self.chain.assemble([metered(self, index) for index in range(len(self.chain.steps))])

    def listens(self) -> AbstractContextManager[None]:
        """Count the warnings that stages log; those of a loader are counted where its dataset is read."""
        ours = not is_loader(self.chain.steps[0].stage)
        return listening(self, threading.current_thread()) if ours else nullcontext()

    def switch(self, owner: int) -> int:
        """Note the position as well."""
        before = super().switch(owner)
        self.position.step(owner, *self.place(max(owner, 0)))
        return before

    def begins(self, index: int) -> None:
        """End the run if the pipeline repeats after the end of its input, or repeats without any output."""
        if index > 0:
            return
        self.passes += 1
        if not self._limit and self.passes > _FEW_PASSES and not self.seen[-2].out:
            self._limit = "empty-passes"
        # The workers of a loader may have read enough, although this process did not get as many samples.
        self._limit = self._limit or self._limit_of(DATASET)
        if self._limit or self.reason:
            # Other workers have read all: no stage of this one holds a sample.
            if self.passes == 1:
                for seen in self.seen:
                    seen.ended = True
            self.refuse()

    def names_shard(self, text: str) -> bool:
        """Return whether a text that comes before any sample is a shard: other sources may yield captions."""
        return text in self.request.urls or ".tar" in text

    def samples_in(self, index: int, batch: object) -> int:
        """Return the number of samples in a batch; 0 if unknown, which is noted."""
        size = next((stage.batch for stage in reversed(self.seen[: index + 1]) if stage.batch > 0), 0)
        count = samples_in(batch, self.request.keys, size)
        if size and (lengths := lengths_of(batch)) is not None:
            count = self._by_full_batch(index, lengths, size, count)
        if count is None and size == 1:
            # Whatever a batch of one sample was made into.
            count = 1
        if index == len(self.chain.steps) - 1:
            self._last_batch = count
        if count is None:
            cast("ReportedStage", self.seen[index]).unclear += 1
        return count or 0

    def _by_full_batch(self, index: int, lengths: tuple[int, int], size: int, count: int | None) -> int | None:
        """Count a batch that is not full as the full ones of its stage: as columns, or as records with so many fields."""
        outer, inner = lengths
        if count == size and (outer == size) != (inner == size):
            self._full[index] = ("columns", outer) if inner == size else ("records", inner)
        if count is None and self._full.get(index) == ("columns", outer):
            count = inner
        elif count is None and self._full.get(index) == ("records", inner):
            count = outer
        return None if count is None or count > size else count

    def input_ends(self, index: int) -> InputEnd:
        """Limit the source as well, if it gives batches, or no sample ever follows."""
        limit = self._limit_of(self.place_name) if index == self._input else ""
        end = "samples" if limit else super().input_ends(index)
        if index == 0 and self.first >= len(self.chain.steps) and time.monotonic() > self.soft:
            end = end or "time"
        self._limit = self._limit or limit or end
        return end

    @property
    def _input(self) -> int:
        """The stage of which the samples count as read."""
        return 0 if self.seen[0].kind == "batch" else self.first

    def _limit_of(self, place: str) -> Limit:
        """Return the limit that processes of one kind have reached together; "" if none."""
        read, delivered = self._counts.of(place)
        if read >= self.request.samples:
            return "samples"
        passes = self.request.pass_limit
        most = passes.samples if delivered else min(passes.samples, passes.until_output)
        return "passes" if read >= most else ""

    def _count(self, index: int, *, blank: bool) -> None:
        """Count what was read and what came out, for all processes of this kind."""
        if index == self._input:
            seen = self.seen[index]
            read = max(seen.out, seen.rows) + cast("ReportedStage", seen).blanks
            self._counts.add(self.place_name, read - self._counted, 0)
            self._counted = read
        if index == len(self.chain.steps) - 1 and not blank:
            self._counts.add(self.place_name, 0, 1)

    def look(self, index: int, item: object) -> None:
        """Note the keys of samples that enter and of those that are left out; report from time to time."""
        seen = cast("ReportedStage", self.seen[index])
        if len(self.chain.steps) == 1 and seen.kind != "batch":
            seen.kind = "sample"
        if index == self.first and self._has_stages and isinstance(item, dict) and isinstance(item.get("__key__"), str):
            self._noted.enters(item)
        if isinstance(item, dict) and isinstance(key := item.get("__key__"), str):
            self._follow(index, key, item.get("__url__"))
        if seen.kind == "sample":
            self._note_combined(index, item)
        sample = self._in_hand.pop(index, None)
        if blank := is_blank(item) and seen.kind == "sample" and index >= self.first:
            self._gives_blank(index, sample or self.place(index))
        elif index + 1 in self._one_by_one:
            self._left_out(index + 1)
            self._in_hand[index + 1] = seen.key, seen.shard
        self._count(index, blank=blank)
        self.position.count(index, seen)
        self.position.step(self.owner, *self.place(max(self.owner, 0)))
        if time.monotonic() > self._reported + _EVERY:
            self.report()

    def begins_item(self, index: object) -> None:
        """Note that an item of a map-style dataset is taken, or a list of items."""
        self._item = f"items {index}" if isinstance(index, list) else f"item {index}"
        self.position.step(0, self._item, "")

    def enters(self, index: object) -> None:
        """Note an item of a map-style dataset that was read."""
        self._noted.enters_item(f"item {index}")

    def _follow(self, index: int, key: str, shard: object) -> None:
        """Count a sample of which the key is visible, and one that a stage yields more often than it got it."""
        seen = cast("ReportedStage", self.seen[index])
        was_taken, is_again = self._keys.passes(index, key, shard)
        begins_here = index == self.first and (key in self.request.keys or not self.request.keys)
        seen.keyed += was_taken or begins_here
        seen.again += is_again

    def _note_combined(self, index: int, item: object) -> None:
        """Count the samples that a stage has put into one element."""
        seen = cast("ReportedStage", self.seen[index])
        if index in self._recent:
            for sample in self._recent[index].combined_in(item):
                seen.losses.setdefault(COMBINED, LostSamples(COMBINED, seen.line, *sample)).count += 1
        if index + 1 in self._recent:
            self._recent[index + 1].add(item, seen.key, seen.shard)

    def _gives_blank(self, index: int, sample: tuple[str, str]) -> None:
        """Note an element that holds no sample as one that the stage has lost."""
        seen = cast("ReportedStage", self.seen[index])
        seen.out -= 1
        seen.losses.setdefault(BLANK, LostSamples(BLANK, seen.line, *sample)).count += 1

    def _left_out(self, index: int) -> None:
        """Note that a stage asks for another sample although it has not yielded the one before."""
        if (sample := self._in_hand.pop(index, None)) is not None:
            seen = cast("ReportedStage", self.seen[index])
            seen.losses.setdefault("", LostSamples("", seen.line, *sample)).count += 1

    def delivers(self, item: object) -> None:
        """Note an element that the user's code would get."""
        if not is_blank(item):
            is_batch = self.seen[-2].kind == "batch"
            self._noted.comes_out(item, is_batch=is_batch, samples=self._last_batch)

    def swallowed(self, index: int, error: BaseException, goes_on: bool = True) -> None:
        """Count an error, with the first of its type."""
        super().swallowed(index, error, goes_on)
        text, machine = error_text(error), machine_fault(error)
        seen = cast("ReportedStage", self.seen[index])
        loss = LostSamples(text, line_of(error) or seen.line, *self.place(index), machine=machine)
        losses = seen.losses
        losses.setdefault(type(error).__name__, loss).count += 1
        self._in_hand.pop(index, None)
        self.position.count(index, seen)
        if losses[type(error).__name__] is loss:
            self.report()

    def fail(self, error: BaseException) -> None:
        """Note the exception that ends the run."""
        # The first stage is a map-style dataset, or the exception came between the stages, as in the pipeline's own loop.
        index = 0 if self._item else -1
        if self.raised is not None and self.raised[1] is error:
            index = self.raised[0]
        error = cause_of(error)
        key, shard = self.place(index) if index > 0 else ("", "")
        key = key or key_in_frames(error, self.request.keys) or self._item
        line = line_of(error)
        if index >= 0:
            line = line or cast("ReportedStage", self.seen[index]).line
        self.fault = Fault(index, error_text(error), line, key, shard, machine_fault(error))

    def report(self) -> None:
        """Write the counts."""
        for index in [index for index in self._in_hand if self.seen[index].ended]:
            self._left_out(index)
        self._reported = time.monotonic()
        stages = cast("list[ReportedStage]", self.seen[:-1])
        for before, seen in zip([None, *stages], stages, strict=False):
            seen.taken, seen.taken_kind = (before.out, before.kind) if before else (0, "")
        write_report(
            self.folder,
            ProcessReport(
                self.place_name,
                os.getpid(),
                stages,
                self.fault,
                self._limit or self.reason,
                self.passes,
                self.stopped_early(),
                bool(self.chain.urls),
                self.chain.endless,
                self.request.pass_limit.never_ends,
                self._noted.without_key,
                self._noted.perhaps_batches,
            ),
        )


def _takes_one_by_one(stage: object) -> bool:
    function = getattr(stage, "f", None)
    return bare_name(stage) in _ONE_BY_ONE and module_of(function).startswith("webdataset.")


def _stage(number: int, step: PipelineStep, calls: Mapping[str, str]) -> ReportedStage:
    size = step.batch
    # Its sampler may give the numbers of whole batches.
    if is_loader(step.stage) and step.stage.batch_size is None:
        size = int(getattr(step.stage.batch_sampler, "batch_size", None) or 0)
    return ReportedStage(
        number,
        step.title,
        batch=size,
        line=_line_of(step.stage) or calls.get(bare_name(step.stage), ""),
        is_loader=is_loader(step.stage),
        is_opaque=not passes_on(step.stage),
        calls_function=calls_function(step.stage),
    )


def _line_of(stage: object) -> str:
    """Return the line where the user's code of a stage begins; "" if it is unknown."""
    if is_loader(stage):
        return ""
    dataset = stage.dataset if isinstance(stage, Items) else stage
    if is_map_style(dataset):
        return code_line(type(dataset).__getitem__)
    return code_line(stage)
