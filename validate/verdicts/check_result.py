"""The answers of ``--check``: will a loader resume, start workers by any method, and split?"""

from dataclasses import dataclass
from typing import Literal

from ..finding import Severity

Check = Literal["resume", "fork", "workers"]
Answer = Literal["right", "wrong", "cannot", "warned", "not judged"]


@dataclass(frozen=True, slots=True)
class LoaderFault:
    """A fault of the user's loader, shown by runs of it."""

    # Of the rule that reports it.
    code: str
    # Plain text, already escaped, with the line of the user's code.
    message: str
    severity: Severity = "error"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to one question about a loader."""

    check: Check
    # What was compared, if nothing is wrong; or why it was not judged.
    summary: str
    faults: tuple[LoaderFault, ...] = ()
    judged: bool = True
    # What was not examined.
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The worst of its faults, in a word; "cannot": a loader without a state."""
        if any(fault.severity == "error" for fault in self.faults):
            return "wrong"
        if not self.judged:
            return "not judged"
        if not self.faults:
            return "right"
        return "cannot" if self.check == "resume" else "warned"
