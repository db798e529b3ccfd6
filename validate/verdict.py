"""The verdict for one consumer: trains, loses, stalls or crashes, with the funnel that leads there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["trains", "loses", "stalls", "crashes"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why samples do not reach a batch: one slug of ``Fate.reason``, with how many."""

    slug: str
    count: int  # samples; 0 where the reason is not about samples (a crash at the start, say)
    message: str  # "3,000 of 3,000 samples have no txt field (they have: json, jpg)"
    shard: str | None = None  # where first
    key: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many are left after each step of a consumer's pipeline, in one pass over all shards."""

    members: int
    samples: int  # as the consumer forms them
    complete: int  # have an image and a caption, as the consumer asks for them
    decoded: int
    usable: int  # reach a batch


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one consumer makes of the shards."""

    consumer: str
    title: str
    outcome: Outcome
    samples: int  # distinct keys in the shards
    usable: int
    reasons: tuple[Reason, ...]
    funnel: Funnel
    exact: bool  # False where the level could not know (names, headers)
    note: str = ""  # what the level could not see, or what was assumed
    lost: Mapping[str, int] = field(default_factory=dict)  # Fate.reason -> samples
