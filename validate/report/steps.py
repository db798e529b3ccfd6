"""What to do, in the order in which it helps: the advice first, then the cures of errors that no advice covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from .grouping import covers, cures, titles
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
    names = titles()
    for repair, codes in cures(report.errors, report.urls):
        if number_of(repair.command, found, report.urls) is None:
            title = names.get(codes[0], "") if len(codes) == 1 else ""
            said = "; ".join(part for part in (title, repair.note) if part)
            text = f"against {', '.join(codes)}" + (f": {said}" if said else "")
            found.append(Step(plain(text), repair.command, repair.safe))
    return found


def number_of(command: str, found: Sequence[Step], urls: Sequence[str]) -> int | None:
    """Return the number of the step, counted from 1, that does what a command does; None if there is none."""
    return next((number for number, step in enumerate(found, 1) if covers(step.command, command, urls)), None)
