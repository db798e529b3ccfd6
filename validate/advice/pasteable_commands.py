"""Writes the commands of findings and advice, by how wdsflow was called."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from ..finding import Advice, Finding, Repair
from .invocation import Invocation


def add_commands(
    findings: Sequence[Finding], advice: Sequence[Advice], invocation: Invocation
) -> tuple[list[Finding], list[Advice]]:
    """Write the commands of findings and advice.

    Each can be pasted, alone or after the others: its output goes to a new folder.
    """
    commands = _PasteableCommands(invocation)
    settled_findings = [commands.of_finding(finding) for finding in findings]
    settled_advice = [commands.of_advice(item) for item in advice]
    return settled_findings, settled_advice


class _PasteableCommands:
    """Commands to paste; equal ones write to the same folder, others to different ones."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._repaired = _free_folders("repaired")
        self._filtered = _free_folders("filtered")
        # By options of ``wdsflow repair``, and by predicates of ``wdsflow filter``.
        self._repairs: dict[tuple[str, ...], str] = {}
        self._filters: dict[str, str] = {}

    def of_advice(self, advice: Advice) -> Advice:
        """Return the advice with its command."""
        if advice.runs_pipeline:
            return replace(advice, command=self._invocation.full_run_command())
        if advice.options is not None:
            return replace(advice, command=self._repair(advice.options))
        if advice.flags and self._invocation.training is not None:
            return replace(
                advice, command=self._invocation.command_with_training_flags(advice.flags)
            )
        return advice

    def of_finding(self, finding: Finding) -> Finding:
        """Return the finding with the command of its repair."""
        repair = finding.repair
        if repair is None:
            return finding
        return replace(finding, repair=self._of_repair(repair))

    def _of_repair(self, repair: Repair) -> Repair:
        if repair.flags:
            return replace(
                repair, command=self._invocation.command_with_training_flags(repair.flags)
            )
        if repair.where:
            return replace(repair, command=self._filter(repair.where))
        return repair

    def _repair(self, options: tuple[str, ...]) -> str:
        if options not in self._repairs:
            self._repairs[options] = self._invocation.repair_command(options, next(self._repaired))
        return self._repairs[options]

    def _filter(self, where: str) -> str:
        if where not in self._filters:
            self._filters[where] = self._invocation.filter_command(where, next(self._filtered))
        return self._filters[where]


def _free_folders(base: str) -> Iterator[str]:
    """Yield names of folders that do not exist: "repaired", "repaired-2" and so on."""
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        if not os.path.lexists(name):
            yield name
