"""One comparison."""

from dataclasses import dataclass
from typing import Literal

from .loading import Plan

MORE_IS_BETTER = {"%", "dB", "samples/s"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One comparison: the same shards, ours and a peer in turn, each run in a fresh process."""

    name: str
    title: str
    # A job of jobs.py, "wdsflow" for our loader, "bounded_map", or "fidelity".
    ours: str
    # A job of jobs.py, "tar" for GNU tar, "open_clip" for
    # its loader, "map", or "bound" for a fixed number.
    peer: str
    shards: str
    goal: float
    # The goal is an upper bound for ours / peer. Otherwise
    # the ratio is how many times better ours is.
    at_most: bool = False
    # Of one process; not moved by what else the machine does.
    measure: str = "cpu_seconds"
    unit: str = "CPU s"
    runs: int = 5
    # Only so many of the shards.
    first: int | None = None
    # The page cache is emptied of the shards before each run.
    cold: bool = False
    # Ours gets the shards so many times over.
    times: int = 1
    # Where the peer is a fixed number.
    bound: float = 0.0
    judged: Literal["ratio", "ours"] = "ratio"
    # Of a loader.
    plan: Plan | None = None
    # Whose runs of the peer are taken, if it was measured before.
    peer_of: str | None = None
