"""Counts of the samples that a feed kept and lost, by stage and reason, and its log."""

import logging
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.shards.shard import Shard

# Shards that could not be opened.
MISSING, UNREADABLE = "missing", "unreadable"
# An opened shard cannot be read at all; the detail has the reason.
NO_TAR = "no-tar"
# A compressed stream is damaged, detected after its samples have been read.
WRONG_CHECKSUM = "wrong-checksum"
# Given in a later pass over the shards of an epoch.
REPEATED = "repeated"
# Fewer than a batch at the end of the first pass.
LEFT_OVER = "left-over"


class FeedLoss(NamedTuple):
    """Why one sample was lost."""

    # "select" while a shard is listed; then, in the order of ``SampleWork.make``: "read", "join",
    # "map" or "caption", "member", "decode".
    stage: str
    # A slug: "no-caption", "no-image", "truncated", ...
    reason: str
    key: str
    shard: Shard
    # For messages.
    detail: str = ""


@dataclass
class LossReason:
    """Samples lost for one reason, and the first of them."""

    count: int
    first: FeedLoss


class Damage(NamedTuple):
    """Damage of a shard itself."""

    shard: Shard
    # "missing", "unreadable", or as the walk over the tar names it: "cut", ...
    what: str
    detail: str


@dataclass
class LossTally:
    """Counts of one rank: ``seen`` is kept, lost and left-over samples together.

    ``kept``: samples given in batches. ``noted``: left-over samples, which fill no batch, and
    repeated ones, which are read again in the same epoch to fill its batches, and are counted only
    there.

    One thread writes. Other threads read valid numbers, possibly of different moments.
    """

    kept: int = 0
    losses: dict[tuple[str, str], LossReason] = field(default_factory=dict)
    noted: Counter[str] = field(default_factory=Counter)
    # By shard and what.
    damage: dict[tuple[str, str], Damage] = field(default_factory=dict)
    # Of samples that lacked one.
    fields: Counter[tuple[str, ...]] = field(default_factory=Counter)

    @property
    def lost(self) -> int:
        """Samples lost for any reason."""
        return sum(reason.count for reason in list(self.losses.values()))

    @property
    def seen(self) -> int:
        """Samples kept, lost or left over."""
        return self.kept + self.noted[LEFT_OVER] + self.lost

    @property
    def reasons(self) -> list[LossReason]:
        """Why samples were lost, the most frequent reason first."""
        return sorted(self.losses.values(), key=lambda reason: -reason.count)

    def add_loss(self, loss: FeedLoss) -> None:
        """Count one lost sample."""
        reason = self.losses.get(loss[:2])
        if reason is None:
            self.losses[loss[:2]] = LossReason(1, loss)
        else:
            reason.count += 1

    def add_damage(self, damage: Damage) -> None:
        """Record damage of a shard, once."""
        self.damage.setdefault(damage[:2], damage)

    def count_fields(self, fields: tuple[str, ...]) -> None:
        """Count the fields of a sample that lacked its image or caption.

        At most a hundred different sets are counted.
        """
        if fields in self.fields or len(self.fields) < 100:
            self.fields[fields] += 1

    def copy(self) -> "LossTally":
        """Return a copy."""
        losses = {
            key: LossReason(reason.count, reason.first) for key, reason in list(self.losses.items())
        }
        return LossTally(
            self.kept, losses, Counter(self.noted), dict(self.damage), Counter(self.fields)
        )

    def since(self, before: "LossTally") -> "LossTally":
        """Return the difference to ``before``, an earlier copy."""
        losses = {}
        for key, reason in list(self.losses.items()):
            count = reason.count - (before.losses[key].count if key in before.losses else 0)
            if count:
                losses[key] = LossReason(count, reason.first)
        damage = {key: item for key, item in list(self.damage.items()) if key not in before.damage}
        return LossTally(
            self.kept - before.kept,
            losses,
            self.noted - before.noted,
            damage,
            self.fields - before.fields,
        )


_log = logging.getLogger("wdsflow.training")


def log_or_print(level: int, text: str) -> None:
    """Log a text; if logging is not set up, write it to stderr.

    Without logging, Python would show only warnings.
    """
    if _log.hasHandlers():
        _log.log(level, "%s", text)
    else:
        _write(text)


def log_critical(text: str) -> None:
    """Log a text as critical, and ensure that it is on stderr too."""
    if _log.hasHandlers():
        _log.critical("%s", text)
    if not _reaches_stderr():
        _write(text)


def _write(text: str) -> None:
    # Closed, or none: sys.stderr may be None.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _reaches_stderr() -> bool:
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(
            isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
            for handler in logger.handlers
        ):
            return True
        logger = logger.parent if logger.propagate else None
    return False
