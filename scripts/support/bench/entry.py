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
    ours: str  # a job of jobs.py, "wdsflow" for our loader, "bounded_map", or "fidelity"
    peer: str  # a job of jobs.py, "tar" for GNU tar, "open_clip" for its loader, "map", or "bound" for a fixed number
    shards: str
    goal: float
    at_most: bool = False  # the goal is an upper bound, and the ratio ours / peer; else the ratio is by how much ours
    # is better
    measure: str = "cpu_seconds"  # of one process; not moved by what else the machine does
    unit: str = "CPU s"
    runs: int = 5
    first: int | None = None  # only so many of the shards
    cold: bool = False  # the page cache is emptied of the shards before each run
    times: int = 1  # ours gets the shards so many times over
    bound: float = 0.0  # where the peer is a fixed number
    judged: Literal["ratio", "ours"] = "ratio"
    plan: Plan | None = None  # of a loader
    peer_of: str | None = None  # whose runs of the peer are taken, if it was measured before
