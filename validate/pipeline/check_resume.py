"""Does a loader resume where it stopped? Its states are loaded in new processes, and the samples compared."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsflow.text.words import how_many

from ..verdicts.check_result import CheckResult, LoaderFault
from .loader_process import END, RANKS, LoaderRequest, LoaderRun, LoaderRuns, Place, SavedState
from .rows import NO_KEYS, identifying, such_as

_WRONG, _NONE = "P327", "P328"
# What differs between places.
_NUMBER = re.compile(r"[\d,]+ \w+|such as [^)]*")
_OTHER_ORDER = "another order than without the interruption"
Ids = list[tuple[str, ...]]


class Taken(NamedTuple):
    """A state, and what a run that resumes from it must hand out."""

    state: SavedState
    # Before its place, in its epoch.
    done: Ids
    # After it, in the same epoch.
    rest: Ids
    # In the next epoch.
    later: Ids


def check_resume(runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> CheckResult:
    """Return whether a loader resumes; ``base`` is an undisturbed run of the request, over three epochs."""
    facts = base.facts
    if facts.stateful is None:
        line = f"{facts.lines['reads']}: " if facts.lines["reads"] else ""
        text = f"{line}{facts.kind} has no state_dict: this loader cannot resume, an interrupted epoch begins again"
        return CheckResult("resume", text, (LoaderFault(_NONE, text, "warning"),))
    return _Resume(runs, request, base).result()


class _Resume:
    def __init__(self, runs: LoaderRuns, request: LoaderRequest, base: LoaderRun) -> None:
        self.runs, self.request, self.base = runs, request, base
        self.faults: dict[str, LoaderFault] = {}
        self.doubts: list[str] = []
        self.notes: list[str] = []
        # States that were resumed as they should be.
        self.right = 0

    def result(self) -> CheckResult:
        base, request = self.base, self.request
        saved = self.runs.run(replace(request, save_at=self._places()))
        if saved.how != "ended":
            self._fault(f"no state can be saved: {saved.failure}", "saves", saved.line)
            return self._answer()
        whole, unique = any(base.whole), request.unique_keys
        self.columns = identifying(base.rows, saved.rows, unique_keys=unique, whole=whole)
        if not self.columns:
            return CheckResult("resume", NO_KEYS, judged=False)
        self.same_order = base.ids(self.columns) == saved.ids(self.columns)
        # Is it the states that change the order? A third run is as undisturbed as the first.
        if not self.same_order:
            if self.runs.run(request).ids(self.columns) == base.ids(self.columns):
                self._fault("taking a state changes which samples come next", "saves")
            else:
                text = "its order is not reproducible; samples that are repeated or lost count, not their order"
                self.notes.append(f"resume: {text}")
        if base.whole[0] and not any(base.epochs[1:]):
            self._fault(
                "no epoch after the first hands out anything: at its end, the position is not set back", "reads"
            )
        for place in saved.shared:
            text = f"the state taken {_at(place)} changes later: it shares memory with the running loader"
            self._fault(text, "saves")
        self._resumed(self._resumed(self._taken(saved), again=False), again=True)
        if not self.faults:
            self._once([request] * RANKS, f"on {RANKS} ranks ")
        elif base.facts.workers and base.facts.stateful:
            # A state that is wrong with workers may be right without.
            others, self.faults = self.faults, {}
            right = self._once([replace(request, workers=0)])
            more = "; without workers (num_workers=0) it resumes as it should" if right else ""
            self.faults = {kind: replace(each, message=each.message + more) for kind, each in others.items()}
        return self._answer()

    def _places(self) -> tuple[Place, ...]:
        """Return places at the start and end of epochs, and at random ones between."""
        rng, sizes = random.Random(0), [len(epoch) for epoch in self.base.epochs]
        places = [(0, 0)]
        places += [(epoch, rng.randrange(1, size)) for epoch, size in enumerate(sizes[:2]) if size > 1]
        if self.base.whole[0]:
            places += [(0, sizes[0]), (0, END)]
        else:
            self.notes.append("resume: an epoch was not read to its end, so the end of an epoch was not tried")
        return tuple(dict.fromkeys(places))

    def _taken(self, run: LoaderRun, before: Taken | None = None) -> list[Taken]:
        """Return the states of a run, which may have resumed from another, with what comes after them."""
        found, ids = [], [*run.ids(self.columns), [], []]
        first, done = (_first(before.state), before.done) if before else (0, [])
        for state in run.states:
            epoch, count = state.place[0] - first, state.place[1]
            if count == END:
                found.append(Taken(state, [], ids[epoch + 1], ids[epoch + 2]))
            else:
                begun = sum(map(len, run.epochs[epoch][:count]))
                found.append(Taken(state, [*done, *ids[epoch][:begun]], ids[epoch][begun:], ids[epoch + 1]))
        return found

    def _resumed(self, taken: Sequence[Taken], *, again: bool) -> list[Taken]:
        """Resume from states; return states of the resumed runs that are right."""
        rng, requests = random.Random(1), []
        for each in taken:
            epoch, count = _first(each.state), max(0, each.state.place[1])
            # Items.
            left = len(self.base.epochs[epoch]) - count
            save_at = ((epoch, rng.randrange(1, left)),) if each.state.place[1] > 0 and left > 1 and not again else ()
            # What remains of the first one may be nothing.
            epochs = 2 if left > 0 else 3
            requests.append(replace(self.request, epochs=epochs, first=epoch, state=each.state.data, save_at=save_at))
        found: list[Taken] = []
        for each, run in zip(taken, self.runs.run_all(requests), strict=True):
            more = how_many(each.state.place[1], "more item")
            what = f"resumed a second time, after {more} of epoch {_first(each.state) + 1}" if again else ""
            if self._judge(each, run, what):
                found += self._taken(run, each)
        return found

    def _judge(self, taken: Taken, run: LoaderRun, what: str) -> bool:
        """Note the fault of a resumed run; return whether there is none."""
        what = what or f"resumed from the state taken {_at(taken.state.place)}"
        if run.how != "ended":
            self._fault(f"{what}: {run.failure}", "loads", run.line)
            return False
        text, sure = difference(taken, run.ids(self.columns), ended=all(run.whole), ordered=self.same_order)
        if not text:
            self.right += 1
        elif sure:
            self._fault(f"{what}: {text}", "loads")
        else:
            self.doubts.append(f"{what}: {text}")
        return not text

    def _once(self, requests: Sequence[LoaderRequest], where: str = "") -> bool:
        """Resume once, each of several ranks from its own state; return whether that is right, False if they do not run."""
        place, ranks = (0, max(1, len(self.base.epochs[0]) // (2 * RANKS))), len(requests) > 1
        saved = self.runs.run_all([replace(each, epochs=2, save_at=(place,)) for each in requests], ranks=ranks)
        taken = [each for run in saved if run.how == "ended" for each in self._taken(run)]
        # check_workers judges ranks that do not run.
        if len(taken) < len(requests):
            return False
        again = [replace(one, epochs=2, state=each.state.data) for one, each in zip(requests, taken, strict=True)]
        runs = self.runs.run_all(again, ranks=ranks)
        what = f"{where}resumed from the state taken {_at(place)}"
        return all(self._judge(each, run, what) for each, run in zip(taken, runs, strict=True))

    def _fault(self, text: str, about: str, line: str = "") -> None:
        """Note a fault; what is alike at several places is one fault, with the first place."""
        facts = self.base.facts
        line = line or facts.lines.get(about, "") or facts.lines.get("reads", "")
        where = f" ({facts.stateful}.state_dict)" if facts.stateful else ""
        prefix = f"{line}: " if line and not text.startswith(line) else ""
        kind = _NUMBER.sub("", text.rpartition(": ")[2])
        self.faults.setdefault(kind, LoaderFault(_WRONG, f"{prefix}{text}{where}"))

    def _answer(self) -> CheckResult:
        summary = f"{how_many(self.right, 'state')} resumed in new processes, with the samples of an undisturbed run"
        judged = bool(self.faults or (self.right and not self.doubts))
        text, faults = next(iter(self.doubts), summary), tuple(self.faults.values())
        return CheckResult("resume", text, faults, judged, tuple(dict.fromkeys(self.notes)))


def difference(taken: Taken, epochs: Sequence[Ids], *, ended: bool, ordered: bool) -> tuple[str, bool]:
    """Return how a resumed run differs from what is expected, "" if it does not, and whether that certainly is a fault.

    ``ended``: its epochs ended by themselves; ``ordered``: two undisturbed runs give the same samples in the same order.
    """
    flat_seen, wanted = [each for epoch in epochs for each in epoch], [*taken.rest, *taken.later]
    least = min(len(flat_seen), len(wanted))
    if flat_seen[:least] == wanted[:least] and (least or not wanted) and not (ended and least < len(wanted)):
        return "", True
    seen, after = [*filter(None, epochs), Ids(), Ids()][:2]
    if not seen:
        return "it hands out nothing", True
    rest, later, done = taken.rest or taken.later, taken.later if taken.rest else [], taken.done if taken.rest else []
    if not taken.rest and Counter(after) == Counter(taken.later) != Counter(seen):
        return f"{how_many(len(seen), 'sample')} repeated before the next epoch", True
    if done and (seen[: len(done)] == done or (ended and Counter(seen) == Counter([*done, *rest]))):
        return f"the epoch begins again: {how_many(len(done), 'sample')} come a second time", True
    if text := _lost_and_repeated(seen, rest, done, ended=ended):
        return text, ordered or ended
    if ordered and seen != rest[: len(seen)]:
        return f"{'the samples come in' if taken.rest else 'the next epoch has'} {_OTHER_ORDER}", True
    if ended and later and len(after) != len(later):
        return f"the next epoch has {len(after):,} samples instead of {len(later):,}", True
    same = not ordered or after == later[: len(after)]
    return "" if same else f"the next epoch has {_OTHER_ORDER}", True


def _lost_and_repeated(seen: Ids, rest: Ids, done: Ids, *, ended: bool) -> str:
    """Return how many samples are repeated, of those before, or lost; "" if none are."""
    again, missing = Counter(seen) - Counter(rest), Counter(rest) - Counter(seen)
    before = set(done or seen)
    repeated = Counter({each: count for each, count in again.items() if each in before})
    texts = [
        f"{how_many(some.total(), 'sample')} {verb}{such_as(some)}"
        for some, verb in ((repeated, "repeated"), (missing if ended else Counter(), "lost"))
        if some
    ]
    return " and ".join(texts)


def _first(state: SavedState) -> int:
    """Return the epoch that a run begins with that resumes from a state."""
    return state.place[0] + (state.place[1] == END)


def _at(place: Place) -> str:
    epoch, count = place
    where = "at the end" if count == END else "at the start" if count == 0 else f"after {how_many(count, 'item')}"
    return f"{where} of epoch {epoch + 1}"
