"""Does a loader resume where it stopped?

Its states are loaded in new processes, and the samples are compared.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsflow.text.words import how_many

from ...verdicts.check_result import CheckResult, LoaderFault
from ..loader.loader_messages import (
    EPOCH_END,
    RANKS,
    LoaderRequest,
    LoaderRun,
    Position,
    SavedState,
)
from ..loader.loader_runs import LoaderRuns
from ..values.rows import NO_KEYS, identifying_columns
from .resume_difference import ExpectedSamples, SampleIds, difference

_DOES_NOT_RESUME, _HAS_NO_STATE = "P327", "P328"
# What differs between the messages on one fault at several positions.
_NUMBER = re.compile(r"[\d,]+ \w+|such as [^)]*")


def check_resume(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether a loader resumes.

    Args:
        runs: starts runs of the loader.
        request: reads three epochs.
        base: an undisturbed run of the request.
    """
    facts = base.facts
    if facts.state_path is None:
        line = f"{facts.lines['reads']}: " if facts.lines["reads"] else ""
        text = f"{line}{facts.kind} has no state_dict: this loader cannot resume, an interrupted epoch begins again"
        return CheckResult("resume", text, (LoaderFault(_HAS_NO_STATE, text, "warning"),))
    return _ResumeCheck(runs, request, base).result()


class _Checkpoint(NamedTuple):
    """A state, and what a run that resumes from it must hand out."""

    state: SavedState
    expected: ExpectedSamples

    @property
    def epoch(self) -> int:
        """The epoch with which a run begins that resumes here."""
        epoch, items = self.state.position
        return epoch + 1 if items == EPOCH_END else epoch

    @property
    def items(self) -> int:
        """How many items of that epoch were handed out before."""
        return max(0, self.state.position[1])


class _ResumeCheck:
    """Saves states, resumes from each, and collects what is wrong."""

    def __init__(self, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> None:
        self.runs = runs
        self.request = request
        self.base = base
        # Columns by which samples are recognized in other runs.
        self.columns: tuple[str, ...] = ()
        # Whether two undisturbed runs give the samples in the same order.
        self.same_order = True
        # By what they have in common, see ``_add_fault``.
        self.faults: dict[str, LoaderFault] = {}
        # Differences that may be due to an order that changes from run to run.
        self.doubts: list[str] = []
        self.notes: list[str] = []
        # States that were resumed without a difference.
        self.resumed_states = 0

    def result(self) -> CheckResult:
        """Run the check."""
        base = self.base
        saved = self.runs.run(replace(self.request, save_at=self._positions()))
        if saved.status != "ended":
            self._add_fault(f"no state can be saved: {saved.failure}", "saves", saved.line)
            return self._answer()
        self.columns = identifying_columns(
            base.rows, saved.rows, unique_keys=self.request.unique_keys, whole=any(base.complete)
        )
        if not self.columns:
            return CheckResult("resume", NO_KEYS, judged=False)
        self._compare_order(saved)
        if base.complete[0] and not any(base.epochs[1:]):
            self._add_fault(
                "no epoch after the first hands out anything: at its end, the position is not set back",
                "reads",
            )
        for position in saved.changed_states:
            text = f"the state taken {_at(position)} changes later: it shares memory with the running loader"
            self._add_fault(text, "saves")
        second = self._resume(self._checkpoints(saved))
        self._resume_again(second)
        if not self.faults:
            self._resume_once([self.request] * RANKS, f"on {RANKS} ranks ")
        elif base.facts.workers and base.facts.state_path:
            self._try_without_workers()
        return self._answer()

    def _positions(self) -> tuple[Position, ...]:
        """Return positions at the start and end of epochs, and at random ones between."""
        rng = random.Random(0)
        sizes = [len(epoch) for epoch in self.base.epochs]
        positions = [(0, 0)]
        for epoch, size in enumerate(sizes[:2]):
            if size > 1:
                positions.append((epoch, rng.randrange(1, size)))
        if self.base.complete[0]:
            positions += [(0, sizes[0]), (0, EPOCH_END)]
        else:
            self.notes.append(
                "resume: an epoch was not read to its end, so the end of an epoch was not tried"
            )
        return tuple(dict.fromkeys(positions))

    def _compare_order(self, saved: LoaderRun) -> None:
        """Compare the order of samples with and without states that are saved."""
        order = self.base.sample_ids(self.columns)
        self.same_order = saved.sample_ids(self.columns) == order
        if self.same_order:
            return
        # Is it the states that change the order? A third run is as undisturbed as the first.
        if self.runs.run(self.request).sample_ids(self.columns) == order:
            self._add_fault("taking a state changes which samples come next", "saves")
        else:
            text = "its order is not reproducible; samples that are repeated or lost count, not their order"
            self.notes.append(f"resume: {text}")

    def _checkpoints(
        self, run: LoaderRun, resumed_from: _Checkpoint | None = None
    ) -> list[_Checkpoint]:
        """Return the states that a run saved, each with the samples that come after it.

        ``resumed_from``: the state from which the run itself resumed.
        """
        first_epoch = 0
        before: SampleIds = []
        if resumed_from is not None:
            first_epoch = resumed_from.epoch
            before = resumed_from.expected.before
        # Of epochs that were not read any more, no sample is expected.
        epochs = [*run.sample_ids(self.columns), [], []]
        checkpoints = []
        for state in run.states:
            epoch, items = state.position
            epoch -= first_epoch
            if items == EPOCH_END:
                expected = ExpectedSamples([], epochs[epoch + 1], epochs[epoch + 2])
            else:
                samples = sum(map(len, run.epochs[epoch][:items]))
                ids = epochs[epoch]
                expected = ExpectedSamples(before + ids[:samples], ids[samples:], epochs[epoch + 1])
            checkpoints.append(_Checkpoint(state, expected))
        return checkpoints

    def _resume(self, checkpoints: Sequence[_Checkpoint]) -> list[_Checkpoint]:
        """Resume from states of the base run.

        Returns the states that were saved by the resumed runs without a difference.
        """
        rng = random.Random(1)
        requests = []
        for checkpoint in checkpoints:
            request = self._resuming(checkpoint)
            remaining = self._remaining_items(checkpoint)
            if checkpoint.items and remaining > 1:
                request = replace(
                    request, save_at=((checkpoint.epoch, rng.randrange(1, remaining)),)
                )
            requests.append(request)
        second: list[_Checkpoint] = []
        for checkpoint, run in zip(checkpoints, self.runs.run_all(requests), strict=True):
            if self._judge(
                checkpoint, run, f"resumed from the state taken {_at(checkpoint.state.position)}"
            ):
                second += self._checkpoints(run, checkpoint)
        return second

    def _resume_again(self, checkpoints: Sequence[_Checkpoint]) -> None:
        """Resume from states that resumed runs have saved."""
        requests = [self._resuming(checkpoint) for checkpoint in checkpoints]
        for checkpoint, run in zip(checkpoints, self.runs.run_all(requests), strict=True):
            items = how_many(checkpoint.state.position[1], "more item")
            self._judge(
                checkpoint,
                run,
                f"resumed a second time, after {items} of epoch {checkpoint.epoch + 1}",
            )

    def _resuming(self, checkpoint: _Checkpoint) -> LoaderRequest:
        """Return the request of a run that resumes from a state."""
        # If nothing remains of the interrupted epoch, the first one that is read may be empty.
        epochs = 2 if self._remaining_items(checkpoint) > 0 else 3
        return replace(
            self.request, epochs=epochs, first_epoch=checkpoint.epoch, state=checkpoint.state.data
        )

    def _remaining_items(self, checkpoint: _Checkpoint) -> int:
        return len(self.base.epochs[checkpoint.epoch]) - checkpoint.items

    def _resume_once(self, requests: Sequence[LoaderRequest], prefix: str = "") -> bool:
        """Resume once from the middle of the first epoch; return whether that is right.

        Returns False if it cannot be tried.

        Args:
            requests: one, or one for each rank of a group; each rank resumes from its own state.
            prefix: of messages, such as "on 2 ranks ".
        """
        run_all = self.runs.run_ranks if len(requests) > 1 else self.runs.run_all
        # Each rank has a part of the items only.
        position = (0, max(1, len(self.base.epochs[0]) // (2 * RANKS)))
        checkpoints: list[_Checkpoint] = []
        for saved in run_all(
            [replace(request, epochs=2, save_at=(position,)) for request in requests]
        ):
            if saved.status == "ended":
                checkpoints += self._checkpoints(saved)
        # check_workers judges ranks that do not run.
        if len(checkpoints) < len(requests):
            return False
        resuming = []
        for request, checkpoint in zip(requests, checkpoints, strict=True):
            resuming.append(replace(request, epochs=2, state=checkpoint.state.data))
        for checkpoint, run in zip(checkpoints, run_all(resuming), strict=True):
            if not self._judge(
                checkpoint, run, f"{prefix}resumed from the state taken {_at(position)}"
            ):
                return False
        return True

    def _try_without_workers(self) -> None:
        """Add to each fault whether the loader resumes without workers.

        A state that is wrong with workers may be right without them.
        """
        faults = self.faults
        self.faults = {}
        is_right = self._resume_once([replace(self.request, workers=0)])
        self.faults = faults
        if not is_right:
            return
        for kind, fault in faults.items():
            message = f"{fault.message}; without workers (num_workers=0) it resumes as it should"
            self.faults[kind] = replace(fault, message=message)

    def _judge(self, checkpoint: _Checkpoint, run: LoaderRun, description: str) -> bool:
        """Add the fault of a resumed run; return whether it has none."""
        if run.status != "ended":
            self._add_fault(f"{description}: {run.failure}", "loads", run.line)
            return False
        epochs = run.sample_ids(self.columns)
        ended = all(run.complete)
        result = difference(checkpoint.expected, epochs, ended=ended, same_order=self.same_order)
        if result is None:
            self.resumed_states += 1
            return True
        text = f"{description}: {result.message}"
        if result.is_fault:
            self._add_fault(text, "loads")
        else:
            self.doubts.append(text)
        return False

    def _add_fault(self, text: str, action: str, line: str = "") -> None:
        """Add a fault; what is alike at several positions is one fault, with the first position.

        Args:
            text: what happened.
            action: of the loader, such as "saves": its line is named, see ``LoaderFacts.lines``.
            line: of the user's code, if it is known better.
        """
        facts = self.base.facts
        line = line or facts.lines.get(action, "") or facts.lines.get("reads", "")
        message = text
        if line and not text.startswith(line):
            message = f"{line}: {text}"
        if facts.state_path:
            message += f" ({facts.state_path}.state_dict)"
        kind = _NUMBER.sub("", text.rpartition(": ")[2])
        self.faults.setdefault(kind, LoaderFault(_DOES_NOT_RESUME, message))

    def _answer(self) -> CheckResult:
        states = how_many(self.resumed_states, "state")
        summary = f"{states} resumed in new processes, with the samples of an undisturbed run"
        if self.doubts:
            summary = self.doubts[0]
        judged = bool(self.faults) or (self.resumed_states > 0 and not self.doubts)
        notes = tuple(dict.fromkeys(self.notes))
        return CheckResult("resume", summary, tuple(self.faults.values()), judged, notes)


def _at(position: Position) -> str:
    epoch, items = position
    if items == EPOCH_END:
        within = "at the end"
    elif items == 0:
        within = "at the start"
    else:
        within = f"after {how_many(items, 'item')}"
    return f"{within} of epoch {epoch + 1}"
