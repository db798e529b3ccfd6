"""What to do, the most effective first: advice, then fixes for errors that no advice covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.text.words import listed, plain

from ..finding import Advice, promises
from .finding_groups import fixes, titles
from .report_model import Results


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step. ``text`` is harmless to print; ``command`` is ready to paste, and may be empty."""

    text: str
    command: str
    safe: bool
    language: str = "shell"  # of the command


def steps(report: Results) -> list[NextStep]:
    """Return the steps; a step for several readers appears once, with its gain for each of them."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for each in report.advice:
        groups.setdefault((each.does, each.command), []).append(each)
    found = [NextStep(_text(group), group[0].command, group[0].safe, group[0].language) for group in groups.values()]
    names = titles()
    for repair, codes in fixes(report.errors):
        if number_of(repair.command, found) is None:
            title = f" ({names[codes[0]]})" if len(codes) == 1 and codes[0] in names else ""
            text = f"fix {listed(codes)}{title}" + (f": {repair.note}" if repair.note else "")
            found.append(NextStep(plain(text), repair.command, repair.safe))
    return found


def number_of(command: str, found: Sequence[NextStep]) -> int | None:
    """Return the number of the step, counted from 1, that is this command; None if there is none."""
    return next((number for number, step in enumerate(found, 1) if step.command == command), None)


def _text(group: Sequence[Advice]) -> str:
    told = promises(group)
    return plain(f"{group[0].does}: {told}" if told else group[0].does)
