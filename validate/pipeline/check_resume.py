"""Does a loader resume where it stopped? Its states are loaded in new processes, and the samples compared."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsflow.text.words import how_many

from ..verdicts.check_result import CheckResult, LoaderFault
from .loader_process import END, LoaderRequest, LoaderRun, LoaderRuns, Place, SavedState
from .rows import Row, flat, identifying, identity, such_as

_WRONG, _NONE = "P327", "P328"
_NUMBER = re.compile(r"[\d,]+ \w+|such as [^)]*")  # what differs between places
Ids = list[tuple[str, ...]]


class Expected(NamedTuple):
    """What an undisturbed run hands out around a place."""

    done: Ids  # before the place, in its epoch
    rest: Ids  # after it, in the same epoch
    later: Ids  # in the next epoch


def check_resume(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether a loader resumes.

    Args:
        runs: starts the runs.
        request: the run of ``base``, over three epochs.
        base: an undisturbed run.
    """
    facts = base.facts
    if facts.stateful is None:
        line = f"{facts.lines['reads']}: " if facts.lines.get("reads") else ""
        text = f"{line}{facts.kind} has no state_dict: this loader cannot resume, an interrupted epoch begins again"
        return CheckResult("resume", text, (LoaderFault(_NONE, text, "warning"),))
    return _Resume(runs, request, base).result()


class Taken(NamedTuple):
    """A state, and what a run that resumes from it must hand out."""

    state: SavedState
    want: Expected

    @property
    def first(self) -> int:
        """The epoch that the resumed run begins with."""
        return self.state.place[0] + (self.state.place[1] == END)


class _Resume:
    def __init__(self, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> None:
        self.runs, self.request, self.base = runs, request, base
        self.facts = base.facts
        self.faults: dict[str, LoaderFault] = {}
        self.doubts: list[str] = []
        self.notes: list[str] = []
        self.right = 0  # states that were resumed as they should be

    def result(self) -> CheckResult:
        saved = self.runs.run(replace(self.request, save_at=self._places()))
        if saved.how != "ended":
            self._fault(f"taking states ends the run: {saved.failure}", "saves")
            return self._answer()
        self.columns = identifying(
            self.base.rows, saved.rows, unique_keys=self.request.unique_keys, whole=any(self.base.whole)
        )
        if not self.columns:
            return CheckResult("resume", "its samples have no key, and differ in each run", judged=False)
        self.same_order = self._ids(self.base) == self._ids(saved)
        self._undisturbed(saved)
        for place in saved.shared:
            text = f"the state taken {_at(place)} changes later: it shares memory with the running loader"
            self._fault(text, "saves")
        states = [self._taken(each, saved) for each in saved.states if not self._refused(each)]
        self._resumed(self._resumed(states, again=False), again=True)
        if self.faults and self.facts.workers and self.facts.stateful:
            self._alone()
        return self._answer()

    def _places(self) -> tuple[Place, ...]:
        """Return places at the start and end of epochs, and at random ones between."""
        rng, sizes = random.Random(0), [len(epoch) for epoch in self.base.epochs]
        places = [(0, 0)]
        places += [(epoch, rng.randrange(1, size)) for epoch, size in enumerate(sizes[:2]) if size > 1]
        if self.base.whole and self.base.whole[0]:
            places += [(0, sizes[0]), (0, END)]
        else:
            self.notes.append("resume: an epoch was not read to its end, so the end of an epoch was not tried")
        return tuple(dict.fromkeys(places))

    def _undisturbed(self, saved: LoaderRun) -> None:
        """Look whether it is the states that change the order: a third run is as undisturbed as the first."""
        if self.same_order:
            return
        other = self.runs.run(self.request)
        if self._ids(other) == self._ids(self.base):
            self._fault("taking a state changes which samples come next", "saves")
        else:
            text = "resume: its order is not reproducible; samples that are repeated or lost count, not their order"
            self.notes.append(text)

    def _refused(self, state: SavedState) -> bool:
        if state.error:
            self._fault(f"no state can be saved {_at(state.place)}: {state.error}", "saves", state.line)
        return bool(state.error)

    def _resumed(self, taken: Sequence[Taken], *, again: bool) -> list[Taken]:
        """Resume from states; return states of the resumed runs that are right."""
        rng, requests = random.Random(1), []
        for each in taken:
            epoch, left = each.first, self._items_after(each.state.place)
            between = each.state.place[1] > 0 and left > 1 and not again
            save_at = ((epoch, rng.randrange(1, left)),) if between else ()
            epochs = 2 if left else 3  # what remains of the first one may be nothing
            requests.append(replace(self.request, epochs=epochs, first=epoch, state=each.state.data, save_at=save_at))
        found: list[Taken] = []
        for each, run in zip(taken, self.runs.run_all(requests), strict=True):
            if self._judge(each, run, again=again):
                found += [self._taken(one, run, each) for one in run.states if not self._refused(one)]
        return found

    def _items_after(self, place: Place) -> int:
        epoch, count = (place[0] + 1, 0) if place[1] == END else place
        return max(0, len(self.base.epochs[epoch]) - count) if epoch < len(self.base.epochs) else 0

    def _judge(self, taken: Taken, run: LoaderRun, *, again: bool) -> bool:
        """Note the fault of a resumed run; return whether there is none."""
        what = f"resumed from the state taken {_at(taken.state.place)}"
        if again:
            more = how_many(taken.state.place[1], "more item")
            what = f"resumed a second time, after {more} of epoch {taken.first + 1}"
        if run.how != "ended":
            self._fault(f"{what}: {run.failure}", "loads", run.line)
            return False
        seen = [self._identities(epoch) for epoch in run.epochs]
        text, sure = difference(taken.want, seen, run.whole, ordered=self.same_order)
        if not text:
            self.right += 1
        elif sure:
            self._fault(f"{what}: {text}", "loads")
        else:
            self.doubts.append(f"{what}: {text}")
        return not text

    def _taken(self, state: SavedState, run: LoaderRun, before: Taken | None = None) -> Taken:
        """Return a state with what comes after it in the run in which it was taken, which may have resumed from another."""
        first, done = (before.first, before.want.done) if before else (0, [])
        epoch, count = state.place[0] - first, state.place[1]
        ids = [*self._ids(run), [], []]
        if count == END:
            return Taken(state, Expected([], ids[epoch + 1], ids[epoch + 2]))
        begun = self._identities(run.epochs[epoch][:count])
        return Taken(state, Expected([*done, *begun], ids[epoch][len(begun) :], ids[epoch + 1]))

    def _alone(self) -> None:
        """Try once without workers, where a state that is wrong with them may be right."""
        others, self.faults = self.faults, {}
        request = replace(self.request, workers=0, epochs=2)
        self.request = request
        place = next((place for place in self._places() if place[1] > 0), None)
        saved = self.runs.run(replace(request, save_at=(place,) if place else ()))
        if saved.how == "ended" and saved.states and not saved.states[0].error:
            run = self.runs.run(replace(request, state=saved.states[0].data, first=saved.states[0].place[0]))
            if self._judge(self._taken(saved.states[0], saved), run, again=False):
                more = "; without workers (num_workers=0) it resumes as it should"
                others = {kind: replace(each, message=each.message + more) for kind, each in others.items()}
        self.faults = others

    def _identities(self, epoch: Sequence[Sequence[Row]]) -> Ids:
        return [identity(row, self.columns) for row in flat(epoch)]

    def _ids(self, run: LoaderRun) -> list[Ids]:
        return [self._identities(epoch) for epoch in run.epochs]

    def _fault(self, text: str, about: str, line: str = "") -> None:
        """Note a fault; what is alike at several places is one fault, with the first place."""
        line = line or self.facts.lines.get(about, "") or self.facts.lines.get("reads", "")
        where = f" ({self.facts.stateful}.state_dict)" if self.facts.stateful else ""
        prefix = f"{line}: " if line else ""
        kind = _NUMBER.sub("", text.rpartition(": ")[2])
        self.faults.setdefault(kind, LoaderFault(_WRONG, f"{prefix}{text}{where}"))

    def _answer(self) -> CheckResult:
        summary = f"{how_many(self.right, 'state')} resumed in new processes, with the samples of an undisturbed run"
        judged = bool(self.right) and not self.doubts
        if self.doubts:
            summary = self.doubts[0]
        faults = tuple(self.faults.values())
        return CheckResult("resume", summary, faults, judged or bool(faults), tuple(self.notes))


def difference(want: Expected, epochs: Sequence[Ids], whole: Sequence[bool], *, ordered: bool) -> tuple[str, bool]:
    """Return how a resumed run differs from what is expected, and whether it certainly is a fault; "" if it does not.

    Args:
        want: from the run in which the state was taken.
        epochs: of the resumed run.
        whole: which of them ended by themselves.
        ordered: whether two undisturbed runs give the same samples in the same order.
    """
    flat_seen, flat_wanted = [each for epoch in epochs for each in epoch], [*want.rest, *want.later]
    least = min(len(flat_seen), len(flat_wanted))
    ends_early = least < len(flat_wanted) and all(whole)
    if flat_seen[:least] == flat_wanted[:least] and not ends_early and (least or not flat_wanted):
        return "", True
    seen = next((epoch for epoch in epochs if epoch), [])
    if not seen:
        return "it hands out nothing", True
    ended = all(whole)
    after = next((epoch for epoch in epochs[epochs.index(seen) + 1 :] if epoch), [])
    if not want.rest:  # an epoch follows, as a whole
        if Counter(after) == Counter(want.later) != Counter(seen):
            return f"{how_many(len(seen), 'sample')} repeated before the next epoch", True
        if not ordered or Counter(seen) != Counter(want.later):
            alike = Counter(seen) == Counter(want.later)
            return ("", True) if alike else (_lost_and_repeated(seen, want.later, [], ended=ended), ended)
        return "the next epoch has another order than without the interruption", True
    entire = [*want.done, *want.rest]
    if want.done and (seen[: len(want.done)] == want.done or (Counter(seen) == Counter(entire) and ended)):
        return f"the epoch begins again: {how_many(len(want.done), 'sample')} come a second time", True
    if text := _lost_and_repeated(seen, want.rest, want.done, ended=ended):
        return text, ordered or ended
    if seen != want.rest[: len(seen)]:
        return ("the samples come in another order than without the interruption", True) if ordered else ("", True)
    if ended and Counter(after) != Counter(want.later):
        return f"the next epoch has {len(after):,} samples instead of {len(want.later):,}", True
    same = not ordered or after == want.later[: len(after)]
    return "" if same else "the next epoch has another order than without the interruption", True


def _lost_and_repeated(seen: Ids, rest: Ids, done: Ids, *, ended: bool) -> str:
    """Return how many samples are repeated, of those before, or lost; "" if none are."""
    again, missing = Counter(seen) - Counter(rest), Counter(rest) - Counter(seen)
    repeated = Counter({each: count for each, count in again.items() if not done or each in set(done)})
    texts = [
        f"{how_many(some.total(), 'sample')} {verb}{such_as(some)}"
        for some, verb in ((repeated, "repeated"), (missing if ended else Counter(), "lost"))
        if some
    ]
    return " and ".join(texts)


def _at(place: Place) -> str:
    epoch, count = place
    where = "at the end" if count == END else "at the start" if count == 0 else f"after {how_many(count, 'item')}"
    return f"{where} of epoch {epoch + 1}"
