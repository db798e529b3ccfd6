"""What to do, in the order in which it helps: the advice first, then the cures of errors that no advice covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from .grouping import cures, group, same_cure
from .model import Report
from .words import count, plain, unique


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. ``text`` is harmless to print; ``command`` is as it is to be pasted, and may be empty."""

    text: str
    command: str
    safe: bool
    gain: str = ""  # "+8,118 samples", where the text does not say it


def steps(report: Report) -> list[Step]:
    """Return what to do; the same command for several consumers comes once."""
    found: list[Step] = []
    for each in report.advice:
        alike = [other for other in report.advice if other.command == each.command and each.command]
        if alike and alike[0] is not each:
            continue
        also = unique(other.consumer for other in alike[1:] if other.consumer != each.consumer)
        text = plain(each.text) + (f"; likewise for {', '.join(map(plain, also))}" if also else "")
        gain = f"+{count(each.regains, 'sample')}" if each.regains and f"{each.regains:,}" not in text else ""
        found.append(Step(text, each.command, each.safe, gain))
    for errors in group(report.errors):
        for repair in cures(errors, report.urls):
            if number_of(repair.command, found) is None:
                text = f"{errors.code} {errors.title}".rstrip() + (f": {repair.note}" if repair.note else "")
                found.append(Step(plain(text), repair.command, repair.safe))
    return found


def number_of(command: str, found: Sequence[Step]) -> int | None:
    """Return the number of the step, counted from 1, that holds a command or does the same; None if there is none."""
    return next((number for number, step in enumerate(found, 1) if same_cure(step.command, command)), None)
