"""The policy of retries: which work is repeated after a process dies, and how often.

It also says when a sample is blamed.

An exception is an answer: nothing is repeated for it. A process that dies gives none, and may have
been killed by something else, such as the system when memory is short. So, for all processes of
ours:

1. Work that a process had not begun is not to blame. The next process gets it.
2. Work that a process had begun is repeated as it was, once for each position, or in smaller parts
   where it has parts.
3. Work at which a process dies for the second time is suspected: a batch is run item by item, rows
   of a batch in halves.
4. A single sample at which a process dies twice is to blame. It is left out, and everything else is
   done.
5. If processes die without progress, the work is given up, with a message.

| process        | work             | its position             | at the second death there | given up after                            |
|----------------|------------------|--------------------------|---------------------------|-------------------------------------------|
| shard worker   | a shard          | ``Mark``: a sample       | done without that sample  | 2 deaths before a sample, 3 at one, 13    |
| actor of Ray   | a shard          | unknown                  | done again                | ``NODE_LOSSES`` of one task               |
| model server   | items of a model | ``Loading``, ``Begun``   | each item alone           | ``LOADS`` while it loads, ``NOT_BEGUN``   |
| map worker     | a batch of rows  | the batch, by its order  | halves; a row alone       | ``MAP_STARTS`` in a row that do not start |
| decoder        | a chunk          | ``SharedPosition``       | the run ends              | never repeated, but a fork that hangs     |
| run, command   | a run            | ``Note``                 | is the result             | never repeated                            |

A lost device counts as a death that the server reports itself; then the item that was alone is
blamed at once. Batches that do not fit into memory are no deaths: the process survives, and halves
them itself (``wdsflow.memory.batching``).
"""

from collections.abc import Mapping, Sequence
from typing import Generic, Literal, TypeVar

# Of workers with their node, for one task.
NODE_LOSSES = 4
# Of map workers that fail in a row: another cause may have killed some.
MAP_STARTS = 10
# Of model servers that die in a row while they load.
LOADS = 5
# Of model servers that die in a row before they begin with a request.
NOT_BEGUN = 100
# Of model servers that die in a row without an output for anything.
SERVERS = 100
# That lose their device in a row at one request, without progress.
IDLE_SERVERS = 16
# Seconds that a forked decoder has to begin its work; after that it is started again, once.
DECODER_BEGINS = 30.0
_TASK_DEATHS = 12

O = TypeVar("O")  # noqa: E741


class TaskDeaths:
    """The deaths of shard workers at one task.

    Positions are numbers of samples; -1 is before the first.
    """

    def __init__(self) -> None:
        self._at: list[int] = []

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._at)

    @property
    def last(self) -> int:
        """The position of the last one."""
        return self._at[-1]

    @property
    def too_many(self) -> bool:
        """Whether the task is given up."""
        return self.count > _TASK_DEATHS or self._at.count(-1) > 1 or self._at.count(self.last) > 2

    def add(self, position: int) -> int | None:
        """Note a death; return the sample to blame, if there is one."""
        again = position >= 0 and position in self._at
        self._at.append(position)
        return position if again else None


class ItemTrials(Generic[O]):
    """The items to run next, by processes that may die at them.

    They run together at first; at the end, each suspect runs alone.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._done: dict[int, O] = {}
        self._suspects: set[int] = set()
        self._group: list[int] = []
        # At this group.
        self._deaths = 0
        # In a row.
        self._unbegun = self._loads = self._idle = 0
        # This process has.
        self._worked = False

    @property
    def runs_alone(self) -> bool:
        """Whether the group is one suspect."""
        return bool(self._group) and self._group[0] in self._suspects

    def next(self) -> Sequence[int]:
        """Return the positions to run next; none if all are done."""
        rest = [at for at in range(self._count) if at not in self._done]
        group = [at for at in rest if at not in self._suspects] or rest[:1]
        if group != self._group:
            self._group, self._deaths = group, 0
        return group

    def outputs(self) -> list[O]:
        """Return the outputs of all items, in order."""
        return [self._done[at] for at in range(self._count)]

    def record_outputs(self, outputs: Sequence[O]) -> None:
        """Take the outputs of the group."""
        self._done.update(zip(self._group, outputs, strict=True))
        self._unbegun = self._loads = 0
        self._worked = True

    def record_death(self, call_state: Literal["unbegun", "loading", "begun"], failure: O) -> bool:
        """Note a death, and return whether the request is given up.

        The item to blame gets ``failure``.
        """
        self._loads += call_state == "loading"
        self._unbegun = 0 if call_state == "begun" else self._unbegun + 1
        if self._loads >= LOADS:
            return True
        if call_state != "begun" and self._unbegun < NOT_BEGUN:
            return False
        self._deaths, self._loads, self._unbegun = self._deaths + 1, 0, 0
        if self._deaths == 1:
            return False
        if self.runs_alone:
            self._done[self._group[0]] = failure
        else:
            self._suspects.update(self._group)
            self._group, self._worked = [], False
        return False

    def record_lost_device(self, done: Mapping[int, O], suspects: Sequence[int]) -> bool:
        """Note that a process lost its device; return whether the request is given up.

        ``done`` are the outputs that it had finished.

        Positions are those in the group.
        """
        progressed = self._worked or len(done) > (not suspects)
        self._idle = 0 if progressed else self._idle + 1
        self._worked = False
        self._done.update({self._group[at]: output for at, output in done.items()})
        news = {self._group[at] for at in suspects} - self._suspects
        self._suspects |= news
        self._group = []
        return not (progressed or done or news) or self._idle >= IDLE_SERVERS


def retry_step(
    rows: int, *, had_all: bool, may_be_blameless: bool
) -> Literal["halves", "alone", "blamed"]:
    """Return the next step after a map worker failed at some rows.

    ``had_all``: it was the only one, and had all memory. ``may_be_blameless``: it died, or memory
    was short.
    """
    if rows > 1:
        return "halves"
    return "alone" if may_be_blameless and not had_all else "blamed"
