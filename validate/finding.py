"""A finding: what is wrong, where, for which readers, and its fix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsflow.text.words import listed

Severity = Literal["error", "warning", "info"]
ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Repair:
    """A way to fix a finding. ``command`` can be pasted into a shell; ``safe`` means that it loses no data.

    The command with another flag of a training command, or with a predicate, is set when the whole report is known: see
    ``advice.settle``. A repair of shards is planned for all findings together: see ``Advice``.
    """

    command: str
    safe: bool = True
    note: str = ""
    flags: tuple[str, ...] = ()  # of a training command, with its value
    where: str = ""  # predicate of ``wdsflow filter`` over all shards


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that would let more samples through, and how to make it."""

    regains: int  # additional samples that would reach a batch
    does: str  # the change, in one line, already escaped
    reader: str = ""  # the reader for which it was computed
    title: str = ""  # its title
    usable: int | None = None  # samples that would reach a batch; None: not known, or unchanged
    now: int = 0
    samples: int = 0
    exact: bool = True  # False: an upper bound, because the level did not read all contents
    command: str = ""  # the command, or lines of code; may be empty
    language: Literal["shell", "python", "yaml"] = "shell"  # of the command
    safe: bool = True  # it changes or loses no data
    options: tuple[str, ...] | None = None  # of ``wdsflow repair`` over all shards
    flags: tuple[str, ...] = ()  # of the training command, which the command judges again
    reads_on: bool = False  # the command runs the pipeline of --pipeline to its end

    @property
    def text(self) -> str:
        """The change and its gain, in one line."""
        return advice_text([self])


def advice_text(advice: Sequence[Advice]) -> str:
    """Return a change and its gain for each reader, in one line. ``advice``: the same change, for different readers."""
    gain = promises(advice)
    return f"{advice[0].does}: {gain}" if gain else advice[0].does


def promises(advice: Sequence[Advice]) -> str:
    """Return the gain of advice for each reader; readers with the same gain together; "" if none is known."""
    brings: dict[tuple[int, int, bool], list[str]] = {}
    for each in advice:
        if each.usable:  # nothing is promised by a number of 0
            title = f"{each.title} (now {each.now:,})"
            brings.setdefault((each.usable, each.samples, each.exact), []).append(title)
    return "; ".join(
        f"{'' if exact else 'up to '}{usable:,} of {samples:,} samples would reach a batch in {listed(titles)}"
        for (usable, samples, exact), titles in brings.items()
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the data that harms some reader. Reported, never raised."""

    code: str
    severity: Severity
    message: str  # place, count, consequence: one line, plain text, already escaped
    shard: str | None = None
    key: str | None = None
    offset: int | None = None
    count: int = 1
    rate: float | None = None  # count / samples, if that makes sense
    readers: tuple[str, ...] = ()
    repair: Repair | None = None
    # Reader -> samples that it loses by this and that no other finding counts: over all findings they add up to its losses.
    lost: Mapping[str, int] = field(default_factory=dict)
