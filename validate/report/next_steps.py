"""What to do, the most effective first: advice, then fixes for errors that no advice covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.text.words import listed, plain

from ..finding import Advice, Repair, promises
from .finding_groups import fixes, titles
from .report_model import Results


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step. ``text`` is harmless to print; ``command`` is ready to paste, and may be empty."""

    text: str
    command: str
    safe: bool
    language: str = "shell"  # of the command

    @property
    def line(self) -> str:
        """The text, and whether care is needed."""
        return self.text if self.safe else f"{self.text}; unsafe: data is changed or left out"


def steps(report: Results) -> list[NextStep]:
    """Return the steps; a step for several readers appears once, with its gain for each of them."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for each in report.advice:
        groups.setdefault((each.does, each.command), []).append(each)
    found = [NextStep(_text(group), group[0].command, group[0].safe, group[0].language) for group in groups.values()]
    for repair, codes in fixes(report.errors):
        if number_of(repair.command, found) is None:
            found.append(repair_step(repair, codes))
    return found


def repair_step(repair: Repair, codes: Sequence[str]) -> NextStep:
    """Return the step that fixes these codes by a repair."""
    names = titles()
    title = f" ({names[codes[0]]})" if len(codes) == 1 and codes[0] in names else ""
    text = f"fix {listed(codes)}{title}" + (f": {repair.note}" if repair.note else "")
    return NextStep(plain(text), repair.command, repair.safe)


def number_of(command: str, found: Sequence[NextStep]) -> int | None:
    """Return the number of the step, counted from 1, that is this command; None if there is none."""
    return next((number for number, step in enumerate(found, 1) if step.command == command), None)


def _text(group: Sequence[Advice]) -> str:
    told = promises(group)
    return plain(f"{group[0].does}: {told}" if told else group[0].does)
