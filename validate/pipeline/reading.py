"""Reads the shards themselves, in their order, as far as there is time: what ends a run early is found only so."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from wdsflow.scan.evidence import Evidence

from .fates import ProbedShape, ProbeLimits, Prober
from .probability import bounds
from .probe_child import ProbeRun, RunRequest
from .probe_samples import places_in
from .rewire import PipelineFacts

_WEEK = 7 * 86_400.0  # seconds: without a limit


class ReadingInOrder:
    """The runs over all shards."""

    def __init__(self, prober: Prober, evidence: Evidence, limits: ProbeLimits) -> None:
        self.prober, self.evidence, self.limits = prober, evidence, limits
        self.urls = tuple(shard.url for shard in evidence.shards)
        self.run: ProbeRun | None = None  # the first one
        self.seconds = 0.0  # that it took

    def first(self, shapes: Sequence[ProbedShape]) -> ProbeRun | None:
        """Read the shards; None if they are not read, or if it says nothing."""
        fates = [fate for shape in shapes for fate in shape.fates.values()]
        odd = any(fate.kind == "hang" or fate.run.how == "endless" for fate in fates)
        if odd or self.prober.patience <= 0 or not self.limits.whole_seconds or self._remote():
            return None
        started = time.monotonic()
        run = self._read(1)
        self.seconds = time.monotonic() - started
        if run.how == "hung" and not self._is_stuck():
            return None  # it may well read all of them before it gives the first
        run = self._named(run)
        if run.how != "endless":
            self.run = run
        return run

    def _named(self, run: ProbeRun) -> ProbeRun:
        """Return a run with the sample that ended it, where its stages do not tell: the next one, if it does so alone."""
        facts, number = run.facts, run.out
        if run.how != "raised" or run.key or run.machine or facts is None or facts.shuffles or facts.workers > 1:
            return run
        for shard in self.evidence.shards:
            if number < shard.runs.count:
                places = places_in(shard.url, allow_pipe=self.prober.tars.allow_pipe)
                path = self.prober.tars.tar(places[number]) if number < len(places) else None
                alone = run if path is None else self.prober.run([path])
                if path is not None and (alone.how, alone.out, alone.error) == (run.how, 0, run.error):
                    return replace(run, key=places[number].key, shard=shard.url)
                break
            number -= shard.runs.count
        return run

    def again(self, first: ProbeRun) -> ProbeRun:
        """Read them once more, with other random numbers; not after a long time, if nothing was drawn."""
        draws = first.facts is None or first.facts.draws or first.facts.shuffles or first.facts.chance
        return self._read(2) if draws or self.seconds < self.limits.whole_seconds else first

    def came(self, facts: PipelineFacts) -> int:
        """Return how many samples surely come out, since they came out in the order in which they are read."""
        ordered = not (facts.shuffles or facts.chance or facts.resampled or facts.workers > 1)
        return min(self.run.out, self.evidence.samples) if self.run is not None and ordered else 0

    def doubt(self, facts: PipelineFacts, shapes: Sequence[ProbedShape]) -> str:
        """Return how the first samples in order differ from the probes; "" if they do not, or if that is not known."""
        run = self.run
        if run is None:
            return ""
        if run.picks_shards:
            return "the function that makes it leaves shards out"
        if not run.taken or facts.opaque or facts.chance:
            return ""
        low, high = bounds(sum(each.usable for each in shapes), sum(len(each.fates) for each in shapes), run.taken)
        some = f"of the first {run.taken:,} samples in order {run.out:,} came out"
        return "" if low <= run.out <= high else f"{some}, unlike those of the probes"

    def changed(self, change: tuple[int, str]) -> ProbeRun:
        """Read them with other stages; see ``RunRequest.change``."""
        return self._read(1, change)

    def _read(self, seed: int, change: tuple[int, str] | None = None) -> ProbeRun:
        limit = self.limits.whole_seconds
        request = RunRequest(
            self.urls,
            seconds=_WEEK if self.evidence.level == "full" else limit,
            patience=limit if self.evidence.level == "full" else math.inf,
            most=16 * self.evidence.samples + 100,
            seed=seed,
            change=change,
        )
        run = self.prober.process.run(request)
        if self.prober.copies == 1:
            return run
        # It gives batches of its own making: they count only if their samples can be told apart.
        return replace(run, out=run.rows, how=run.how if run.rows or run.how != "ended" else "slow")

    def _remote(self) -> bool:
        size = sum(shard.size or 0 for shard in self.evidence.shards)
        return size > self.limits.remote_bytes and any("://" in url or url.startswith("pipe:") for url in self.urls)

    def _is_stuck(self) -> bool:
        """Return whether a run that gave nothing for a while could have read all samples in that time."""
        costs = sorted(self.prober.cost.values())
        return bool(costs) and costs[len(costs) // 2] * self.evidence.samples < self.seconds
