"""A finding: what is wrong, where, for which readers, and its fix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsflow.text.words import enumeration

Severity = Literal["error", "warning", "info"]
ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Repair:
    """How to fix a finding.

    ``command`` can be pasted into a shell. ``safe`` means that it loses no data.

    The command with another flag of a training command, or with a predicate, is set when the whole
    report is known: see ``advice.pasteable_commands``. A repair of shards is planned for all
    findings together: see ``Advice``.
    """

    command: str
    safe: bool = True
    note: str = ""
    # Of a training command, with its value.
    flags: tuple[str, ...] = ()
    # Predicate of ``wdsflow filter`` over all shards.
    where: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that would let more samples through, and how to make it."""

    # Additional samples that would reach a batch.
    regains: int
    # The change, in one line, already escaped.
    action: str
    # The reader for which it was computed.
    reader: str = ""
    # Its title.
    title: str = ""
    # Samples that would reach a batch; None: not known, or unchanged.
    usable: int | None = None
    now: int = 0
    samples: int = 0
    # False: an upper bound, because the level did not read all contents.
    exact: bool = True
    # The command, or lines of code; may be empty.
    command: str = ""
    # Of the command.
    language: Literal["shell", "python", "yaml"] = "shell"
    # It changes or loses no data.
    safe: bool = True
    # Of ``wdsflow repair`` over all shards.
    options: tuple[str, ...] | None = None
    # Of the training command, which the command judges again.
    flags: tuple[str, ...] = ()
    # The command runs the pipeline of --pipeline to its end.
    runs_pipeline: bool = False

    @property
    def text(self) -> str:
        """The change and its gain, in one line."""
        return advice_text([self])


def advice_text(advice: Sequence[Advice]) -> str:
    """Return a change and its gain for each reader, in one line.

    ``advice``: the same change, for different readers.
    """
    gain = gain_text(advice)
    return f"{advice[0].action}: {gain}" if gain else advice[0].action


def gain_text(advice: Sequence[Advice]) -> str:
    """Return the gain of advice for each reader; "" if none is known.

    Readers with the same gain are listed together.
    """
    # The titles of readers by their gain.
    gains: dict[tuple[int, int, bool], list[str]] = {}
    for of_reader in advice:
        # Nothing is promised by a number of 0.
        if of_reader.usable:
            gain = (of_reader.usable, of_reader.samples, of_reader.exact)
            gains.setdefault(gain, []).append(f"{of_reader.title} (now {of_reader.now:,})")
    texts = []
    for (usable, samples, is_exact), titles in gains.items():
        most = "" if is_exact else "up to "
        texts.append(
            f"{most}{usable:,} of {samples:,} samples would reach a batch in {enumeration(titles)}"
        )
    return "; ".join(texts)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the data that harms some reader. Reported, never raised."""

    code: str
    severity: Severity
    # Location, count, consequence: one line, plain text, already escaped.
    message: str
    shard: str | None = None
    key: str | None = None
    offset: int | None = None
    count: int = 1
    # Count / samples, if that makes sense.
    rate: float | None = None
    readers: tuple[str, ...] = ()
    repair: Repair | None = None
    # Reader -> samples that it loses by this and that no other finding counts: over all findings
    # they add up to its losses.
    lost: Mapping[str, int] = field(default_factory=dict)
