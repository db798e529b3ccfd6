"""What is sent to the process of a loader's run, the request, and what comes back, the result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..values.rows import Row, identity

# In place of a number of items: after the last one.
EPOCH_END = -1
# Ranks of a run on several.
RANKS = 2

# What the process does, in this order; those about the
# state only if the request has one or asks for some.
Step = Literal["importing", "building", "state_dict", "load_state_dict", "reading"]
# "begun": it has not ended yet; "died": its process ended before it did.
RunStatus = Literal["begun", "ended", "raised", "hung", "died"]
# An epoch, and how many items of it were handed out; EPOCH_END: all of them.
Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LoaderRequest:
    """One run of a loader."""

    urls: tuple[str, ...]
    epochs: int = 1
    first_epoch: int = 0
    # Of an epoch: the run ends after the item that completes them.
    most_samples: int = 2000
    # The run ends after the item that is read by then.
    seconds: float = 90.0
    # Where a state is saved.
    save_at: tuple[Position, ...] = ()
    # A pickled state, loaded before the first epoch.
    state: bytes | None = None
    # Of its DataLoaders; None: as they are.
    workers: int | None = None
    # How multiprocessing starts workers; "": the default of Python.
    start_method: str = ""
    rank: int = 0
    ranks: int = 1
    # The file at which ranks meet.
    rendezvous: str = ""
    # At which a script's own group may meet; 0: a free one.
    port: int = 0
    # Of the samples in the shards.
    keys: frozenset[str] = frozenset()
    # The same by shard, in the order of the urls.
    shard_keys: tuple[tuple[str, ...], ...] = ()
    # No two samples have the same key.
    unique_keys: bool = False
    # Shards that have copies of one sample only.
    clone_urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """What the loader's own object shows before it is read."""

    # Name of its class.
    kind: str = ""
    # Of its DataLoaders, the most; None: it has no DataLoader.
    workers: int | None = None
    can_have_workers: bool = False
    # Its DataLoaders choose how processes are started.
    has_start_method: bool = False
    # The path of the object that has the state, "" for the loader itself; None: nothing has one.
    state_path: str | None = None
    map_style: bool = False
    # It reads the shards again until an epoch is full.
    repeats: bool = False
    # It draws shards with replacement.
    resampled: bool = False
    # "reads", "saves", "loads", "seeds", "sets" -> the line
    # of the user that does it; "" if unknown.
    lines: dict[str, str] = field(default_factory=dict)
    # Globals that the function set which makes the loader.
    set_globals: tuple[str, ...] = ()


class SavedState(NamedTuple):
    """A state that was saved during a run."""

    position: Position
    # Pickled.
    data: bytes


@dataclass(slots=True)
class LoaderRun:
    """The result of a run."""

    status: RunStatus = "begun"
    # The last step: where it raised or hung.
    step: Step = "importing"
    error: str = ""
    # Of the user's code, where it raised: "train.py:31".
    line: str = ""
    facts: LoaderFacts = field(default_factory=LoaderFacts)
    # The samples of each item of each epoch.
    epochs: list[list[list[Row]]] = field(default_factory=list)
    # Of each epoch, whether it ended by itself.
    complete: list[bool] = field(default_factory=list)
    states: list[SavedState] = field(default_factory=list)
    # Positions of states that changed after they were saved.
    changed_states: list[Position] = field(default_factory=list)
    # What cannot be pickled, and why.
    unpicklable: tuple[str, ...] = ()
    # A worker imported the user's script, which started processes again.
    lacks_main_guard: bool = False
    # The shards that its main process opened.
    opened: frozenset[str] = frozenset()
    # Why torch.distributed was not initialized; "" if it was.
    group_error: str = ""
    # That the user's module imports.
    libraries: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """The samples of all epochs."""
        return [row for epoch in self.epochs for item in epoch for row in item]

    def sample_ids(self, columns: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """Return what identifies the samples of each epoch, by some columns."""
        return [[identity(row, columns) for item in epoch for row in item] for epoch in self.epochs]

    @property
    def failure(self) -> str:
        """How it failed, with the line of the user's code."""
        if self.status != "raised":
            return f"{self.step} hangs"
        return f"{self.line}: {self.error}" if self.line else self.error
