"""The number of samples that come out, with bounds for untested samples."""

import math
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple

from wdsflow.scan.evidence import Evidence, Run, ScanOptions, Shape, ShardEvidence
from wdsflow.text.words import how_many

from ..verdicts.verdict import Outcome
from .probe_process import ProbeProcess, ProbeRun, RunRequest, StageLoss
from .probe_samples import SamplePlace, ShapeGroup, TinyTars
from .rewire import PipelineFacts

_DOUBT = 0.001  # error probability of a bound
_STEPS = 1 << 50


def bounds(hits: int, tried: int, untried: int) -> tuple[int, int]:
    """Return bounds on the hits among untested samples, by Clopper and Pearson (1934), at 99.9 % on each side.

    >>> bounds(4, 4, 1), bounds(400, 400, 10_000), bounds(0, 400, 10_000), bounds(0, 0, 7)
    ((0, 1), (9828, 10000), (0, 172), (0, 7))
    """
    if not tried:
        return 0, untried
    return math.floor(_least(hits, tried) * untried), math.ceil((1 - _least(tried - hits, tried)) * untried)


def _least(hits: int, tried: int) -> float:
    """Return the largest share for which at least ``hits`` are no more likely than ``_DOUBT``, to 50 bits."""

    def chance(place: int) -> float:
        share, total = place / _STEPS, 0.0
        for count in range(hits, tried + 1) if place else ():
            log = math.lgamma(tried + 1) - math.lgamma(count + 1) - math.lgamma(tried - count + 1)
            total += math.exp(log + count * math.log(share) + (tried - count) * math.log1p(-share))
        return total

    return (bisect_right(range(_STEPS), _DOUBT, key=chance) - 1) / _STEPS if hits else 0.0


@dataclass(slots=True)
class Estimate:
    """The number of samples that come out."""

    least: int = 0
    likely: int = 0
    most: int = 0
    crash: ProbeRun | None = None
    hang: ProbeRun | None = None
    doubts: list[str] = field(default_factory=list)  # why it is a range
    whole: bool = False  # the shards themselves were read
    losses: tuple[StageLoss, ...] = ()  # of each stage, if shards were read to their end with reproducible results
    came: int = 0  # samples that came out when the shards were read in order: a lower bound
    open: bool = False  # the run may end anywhere after those
    stopped: str = ""  # the stage that ended the run before its input ended, such as "stage 4 slice(100)"

    rest: list[tuple[str, int]] = field(default_factory=list)  # stages, and the samples that they drop at the end
    perhaps_batches: bool = False  # each element that came out may be a batch of any number of samples
    picks: bool = False  # the function that builds the pipeline skips shards

    def shift(self, real: int, counted: tuple[int, int]) -> None:
        """Replace the estimate by shape with the found number for some samples: ``counted`` is (at least, at most)."""
        self.least = max(0, self.least + real - counted[1])
        self.likely = max(0, self.likely + real - counted[1])
        self.most = max(0, self.most + real - counted[0])

    def open_below(self, why: str, most: int = 0) -> None:
        """Allow any number from the samples that already came out up to ``most``."""
        self.least, self.open, self.most = self.came, True, max(self.most, most)
        self.doubts.append(why)

    def end_by(self, fate: "ProbedFate") -> bool:
        """Note a sample that ends the run, and return whether it does."""
        if fate.kind == "crash":
            self.crash = self.crash or fate.run
        elif fate.kind == "hang":
            self.hang = self.hang or fate.run
        return fate.kind in ("crash", "hang")

    def outcome(self, samples: int, max_loss: float, *, repeats: bool) -> Outcome:
        """Return the outcome of both ends of the range; "not known" if they differ, or if the run may end anywhere.

        ``max_loss``: see ``probe_pipeline``. ``repeats``: the pipeline repeats its shards until a sample comes out.
        """
        if self.crash is not None:
            return "crashes"
        if self.hang is not None or (not self.most and repeats):
            return "stalls"
        loses = [not number or samples - number > max_loss * samples for number in (self.least, self.most)]
        unknown = loses[0] != loses[1] or (self.open and self.least < self.most) or (repeats and not self.least)
        return "not known" if unknown else "loses" if loses[0] else "trains"


ProbeKind = Literal["usable", "dropped", "crash", "hang", "ends-shard", "ends-stream"]
_PATIENCE = 3  # runs that may hang or die, each at the cost of a new process, before probing stops
_REPEATS = 4  # further runs of a sample if its pipeline draws random numbers
_REPEATED_SHAPES = 8  # shapes whose samples are run again then
_COPIES = 256  # of a sample, for a pipeline that yields nothing before a batch is full


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """Limits of probing a pipeline."""

    per_shape: int = 4
    shapes: int = 64  # the most frequent ones
    samples: int = 400  # probed if the set is too large to read whole
    seconds: float = 10.0  # of one run
    first_run: float = 60.0  # of building the pipeline, and of the first run of a process: either may load a model
    first_seconds: float = 60.0  # of the first probes of all shapes
    rare: int = 96  # samples with rare values
    rare_seconds: float = 20.0  # of their probes
    all_seconds: float = 45.0  # of all probes except the first ones of each shape
    whole_seconds: float = 60.0  # of reading all shards in order; 0: not read. No limit at level full
    remote_bytes: int = 256 << 20  # limit for reading remote shards
    damaged: int = 16  # damaged shards whose ends are probed


class ProbedFate(NamedTuple):
    """The fate of one sample."""

    kind: ProbeKind
    run: ProbeRun

    @property
    def way(self) -> tuple[str, str, str]:
        """The kind, the stage, and the type of error."""
        return self.kind, self.run.stage, self.run.error.partition(":")[0]


@dataclass(slots=True)
class ProbedShape:
    """The fates of some samples of a shape."""

    group: ShapeGroup
    fates: dict[SamplePlace, ProbedFate]  # of randomly drawn samples
    rare: dict[SamplePlace, ProbedFate] = field(default_factory=dict)  # of unusual samples, selected on purpose

    @property
    def usable(self) -> int:
        """Probed samples that came out."""
        return sum(fate.kind == "usable" for fate in self.fates.values())

    @property
    def tried(self) -> dict[SamplePlace, ProbedFate]:
        """All probed samples."""
        return {**self.fates, **self.rare}

    @property
    def agrees(self) -> bool:
        """Whether all probes met the same fate."""
        return len({fate.kind for fate in self.tried.values()}) == 1


class Prober:
    """Runs the pipeline over tars of a few samples. ``options``: of the scan that produced the evidence."""

    def __init__(
        self, process: ProbeProcess, tars: TinyTars, evidence: Evidence, options: ScanOptions, limits: ProbeLimits
    ) -> None:
        self.process, self.tars, self.evidence, self.options, self.limits = process, tars, evidence, options, limits
        self.facts = PipelineFacts()  # from the first run
        self.shapes: list[ProbedShape] = []
        self.copies = 1
        self.good: list[SamplePlace] = []  # samples that come out; one after another shows whether reading continues
        self.elements = 1  # per sample, at most
        self.runs = 0
        self.patience = _PATIENCE
        self.chance = False  # some sample comes out in one run but not in another
        self.cost: dict[SamplePlace, float] = {}  # seconds per sample, run alone

    def run(self, urls: Sequence[str], *, most: int = 300, change: tuple[int, str] | None = None) -> ProbeRun:
        """Read some tars once, for at most ``most`` elements, and return the run. ``change``: see ``RunRequest``."""
        self.runs += 1
        seconds, first = self.limits.seconds, self.limits.first_run
        request = RunRequest(
            tuple(urls), seconds=seconds, first_seconds=first, most=most, seed=self.runs, change=change
        )
        return self.process.run(request)

    def first_round(self, groups: Sequence[ShapeGroup]) -> list[ProbedShape]:
        """Probe some samples of each shape, as many as time permits: one of each shape, then a second, and so on."""
        limits, self.shapes = self.limits, [ProbedShape(group, {}) for group in groups]
        chosen = _in_turn(_spread(group.places, limits.per_shape) for group in groups)
        self.tars.read(chosen)
        ends = time.monotonic() + limits.first_seconds
        runs = self._alone(chosen, ends - limits.first_seconds / 2)
        opaque = any(run.how == "ended" and run.facts is not None and run.facts.opaque for run in runs.values())
        if opaque and not any(run.machine or run.out for run in runs.values()):
            self.copies = _COPIES
            repeated = self._alone(chosen, ends - limits.first_seconds / 4)
            if any(run.out for run in repeated.values()):
                runs = repeated
            else:
                self.copies = 1
        self.good = [place for place, run in runs.items() if run.comes_out]
        by_shape = {place: shape for shape in self.shapes for place in shape.group.places}
        for place, run in runs.items():
            if run.comes_out or run.how == "hung" or (not run.machine and time.monotonic() < ends):
                by_shape[place].fates[place] = self._fate(place, run)
        self._look_for_chance(ends)
        return self.shapes

    def _look_for_chance(self, ends: float) -> None:
        """Probe samples again if the pipeline draws random numbers, which most do only to augment images."""
        for shape in self.shapes[:_REPEATED_SHAPES]:
            for place, fate in list(shape.fates.items())[:4]:
                for _ in range(_REPEATS if fate.run.facts is not None and fate.run.facts.draws else 0):
                    more = self.patience > 0 and not self.chance and time.monotonic() < ends
                    path = self.tars.tar(place) if more else None
                    if path is not None and fate.kind in ("usable", "dropped"):
                        self.chance = self.run([path] * self.copies).comes_out != (fate.kind == "usable")

    def more(self, shape: ProbedShape, count: int, seconds: float) -> None:
        """Probe up to ``count`` more samples of a shape, for about ``seconds``."""
        places = [place for place in shape.group.places if place not in shape.tried][:count]
        ends = time.monotonic() + seconds
        for index, place in enumerate(places):
            if time.monotonic() > ends:
                return
            if index % 16 == 0:
                self.tars.read(places[index : index + 16])
            if fate := self._tried(place):
                shape.fates[place] = fate
                self.good += [place] * (fate.kind == "usable")

    def try_rare(self, samples: Iterable[tuple[SamplePlace, Shape]]) -> None:
        """Probe unusual samples."""
        by_shape = {shape.group.shape: shape for shape in self.shapes}
        ends = time.monotonic() + self.limits.rare_seconds
        for place, form in samples:
            if time.monotonic() > ends:
                return
            shape = by_shape.get(form)
            if shape is not None and place not in shape.tried and (fate := self._tried(place)):
                shape.rare[place] = fate

    def rest(self, shard: ShardEvidence) -> ProbedFate | None:
        """Return the fate of the last sample of a shard with its damaged end; None if it cannot be probed."""
        path = shard.url if shard.error is not None else self.tars.rest(shard)
        if path is None:
            return None
        last = shard.runs.last
        after = self._after([last.key] if last is not None else [])
        run = self.run([path, *after])
        if run.how != "ended":
            return ProbedFate("hang" if run.how == "hung" else "crash", run)
        if after and not run.out:
            return ProbedFate("ends-stream", run)
        return ProbedFate("usable" if run.out > len(after) else "dropped", run)

    def counted_in(self, runs: Sequence[tuple[str, Run]]) -> tuple[int, int]:
        """Return bounds on how many of some samples come out, by probes of them or of their shapes."""
        by_shape = {shape.group.shape: shape for shape in self.shapes}
        least = most = 0
        for url, run in runs:
            shape = by_shape.get(run.shape)
            fate = None if shape is None else shape.tried.get(SamplePlace(url, run.offset, run.key))
            if shape is None or (fate is None and not shape.agrees):
                most += 1
            elif fate.kind == "usable" if fate is not None else shape.usable:
                least, most = least + 1, most + 1
        return least, most

    def never_out(self) -> int:
        """Return how many samples do not come out, estimated from the probes."""
        tried = (shape for shape in self.shapes if shape.fates)
        return sum(round(shape.group.count * (1 - shape.usable / len(shape.fates))) for shape in tried)

    def note(self, found: Estimate) -> str:
        """Return a text on the runs, and why the number is a range."""
        tried = sum(len(shape.tried) for shape in self.shapes)
        text = f"{self.process.spec} was run over {how_many(tried, 'sample')} of {how_many(len(self.shapes), 'shape')}"
        text += ", and over all shards once" if found.whole else ""
        if found.least != found.most and found.doubts:
            text += f"; the number is a range: {', '.join(dict.fromkeys(found.doubts))}"
        if self.facts.resampled or self.facts.endless:
            text += "; it repeats its shards, and the number is that of one pass"
        return text

    def _tried(self, place: SamplePlace) -> ProbedFate | None:
        """Return the fate of a sample; None if unknown, for example if the machine lacks a requirement."""
        run = self._alone([place]).get(place)
        return self._fate(place, run) if run is not None and (run.comes_out or not run.machine) else None

    def _alone(self, places: Iterable[SamplePlace], ends: float = math.inf) -> dict[SamplePlace, ProbeRun]:
        runs: dict[SamplePlace, ProbeRun] = {}
        for place in places:
            tried = self.patience > 0 and (time.monotonic() < ends or not runs)
            path = self.tars.tar(place) if tried else None
            if path is not None:
                started = time.monotonic()
                run = runs[place] = self.run([path] * self.copies)
                self.cost[place] = time.monotonic() - started
                self.patience -= run.how == "hung" or run.died
        return runs

    def _fate(self, place: SamplePlace, run: ProbeRun) -> ProbedFate:
        """Judge one sample; if it does not come out, try it again before others that do."""
        if run.comes_out:
            if self.copies == 1 and run.how == "ended":
                self.elements = max(self.elements, run.out)
            return ProbedFate("usable", run)
        if run.how == "hung":
            return ProbedFate("hang", run)
        by_chance = run.facts is not None and run.facts.chance
        near = next((each for each in self.good if each.key != place.key), None)
        again = near is not None and self.patience > 0 and not by_chance and self.copies == 1
        path = self.tars.tar(place, near) if near is not None and again else None
        if near is None or path is None:
            return ProbedFate("crash" if run.how == "raised" else "dropped", run)
        after = self._after([near.key, place.key])
        both = self.run([path, *after])
        if both.how in ("raised", "hung"):
            return ProbedFate("crash" if both.how == "raised" else "hang", both)
        if both.out > len(after):
            return ProbedFate("dropped", run if run.how == "ended" else both)
        return ProbedFate("ends-shard" if after and both.out else "ends-stream", run)

    def _after(self, keys: Sequence[str]) -> list[str]:
        """Return a tar to read after another, with a different key: webdataset 0.2 joins equal ones."""
        other = next((place for place in self.good if place.key not in keys), None)
        tar = None if other is None else self.tars.tar(other)
        return [] if tar is None else [tar]


def _in_turn(lists: Iterable[Iterable[SamplePlace]]) -> list[SamplePlace]:
    """Return the first of each list, then the second of each, and so on."""
    return [place for some in zip_longest(*lists) for place in some if place is not None]


def _spread(places: Iterable[SamplePlace], count: int) -> list[SamplePlace]:
    """Return some places, from as many shards as possible, spread over all of them."""
    by_shard: dict[str, list[SamplePlace]] = {}
    for place in places:
        by_shard.setdefault(place.shard, []).append(place)
    rounds = _in_turn(by_shard.values())
    if len(by_shard) <= count:
        return rounds[:count]
    step = (len(by_shard) - 1) / max(1, count - 1)
    return [rounds[round(index * step)] for index in range(count)]


def joined_chains(shards: Sequence[ShardEvidence]) -> Iterator[list[tuple[str, Run]]]:
    """Yield the last and first samples of neighbouring shards that share a key."""
    chain: list[tuple[str, Run]] = []
    for shard in shards:
        for end in (shard.runs.head, shard.runs.tail):
            if end is None:
                continue
            if chain and end is shard.runs.head and chain[-1][1].key == end.key:
                chain.append((shard.url, end))
                continue
            if len(chain) > 1:
                yield chain
            chain = [(shard.url, end)]
    if len(chain) > 1:
        yield chain


def is_damaged(shard: ShardEvidence) -> bool:
    """Return whether some readers do not read a shard to its end."""
    return shard.error is not None or shard.stop.kind in ("error", "silent")
