"""The verdict on the user's own pipeline: probes of each shape, multiplied by the counts of the scan."""

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wdsflow.readers.energon import meetings
from wdsflow.scan.evidence import UNKNOWN, Evidence, ScanOptions, ShardEvidence

from ..verdicts.verdict import PIPELINE, Funnel, Reason, Verdict
from .column_readers import leave_open
from .fates import (
    Estimate,
    ProbedFate,
    ProbedShape,
    ProbeLimits,
    Prober,
    agree,
    bounds,
    counted_in,
    is_damaged,
    joined_chains,
    never_out,
    note_of,
    typical_share,
)
from .load_pipeline import PipelineError
from .pipeline_advice import Counting, advise_pipeline
from .probe_batches import failing_batch, leave_out_rest
from .probe_child import BUILDING, ProbeRun
from .probe_process import ProbeProcess
from .probe_reasons import lost_by_slug, reasons_of, unknown_here
from .probe_samples import (
    MOST_BYTES,
    SamplePlace,
    TinyTars,
    add_places,
    in_order,
    leave_out,
    rare_samples,
    shape_groups,
)
from .reading import ReadingInOrder, judge_split, leave_room
from .rewire import PipelineFacts

__all__ = ["PipelineError", "ProbeLimits", "probe_pipeline"]


def probe_pipeline(
    spec: str,
    evidence: Evidence,
    options: ScanOptions,
    max_loss: float = 0.05,
    limits: ProbeLimits | None = None,
    world_size: int = 1,
) -> Verdict:
    """Return the verdict on a pipeline, by running it over some real samples in a process of its own.

    Args:
        spec: ``module:object`` or ``train.py:object``; see ``find`` and ``build``.
        evidence: of the scan of all shards.
        options: of that scan.
        max_loss: share of samples, 0 to 1, that may be lost before the outcome is "loses".
        limits: how much is tried.
        world_size: ranks that train.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    with ProbeProcess(spec) as process:
        return judge_pipeline(process, evidence, options, max_loss, limits, world_size)


def judge_pipeline(
    process: ProbeProcess,
    evidence: Evidence,
    options: ScanOptions,
    max_loss: float = 0.05,
    limits: ProbeLimits | None = None,
    world_size: int = 1,
) -> Verdict:
    """Return the verdict on the pipeline of a process that is there already; see ``probe_pipeline``."""
    limits = limits or ProbeLimits()
    with tempfile.TemporaryDirectory(prefix="wdsflow-probe-") as folder:
        prober = Prober(process, TinyTars(Path(folder), allow_pipe=options.allow_pipe), limits.seconds)
        return _Probing(prober, evidence, options, limits, world_size).verdict(process.spec, max_loss)


class _Probing:
    def __init__(
        self, prober: Prober, evidence: Evidence, options: ScanOptions, limits: ProbeLimits, world_size: int
    ) -> None:
        self.world_size = world_size
        self.prober, self.evidence, self.options, self.limits = prober, evidence, options, limits
        self.shards = evidence.shards
        self.facts = PipelineFacts()
        self.damage: dict[str, ProbedFate] = {}
        self.reading = ReadingInOrder(prober, evidence, limits)

    def verdict(self, spec: str, max_loss: float) -> Verdict:
        groups = shape_groups(self.shards)
        shapes = self.prober.first_round(groups[: self.limits.shapes], self.limits)
        fault = self.prober.process.fault
        runs = [fate.run for shape in shapes for fate in shape.fates.values()] or [run for run in (fault,) if run]
        self.facts = next((run.facts for run in runs if run.facts is not None), self.facts)
        self.facts.chance |= self.prober.chance
        whole = self.reading.estimate(shapes, self.facts)
        self._check_built(runs, shapes)
        if whole is None:
            estimate = self._from_probes(shapes, sum(each.count for each in groups[len(shapes) :]))
        else:
            estimate = whole
            if whole.crash is None and whole.likely + never_out(shapes) < self.evidence.samples:
                self._try_rare(shapes)  # probes of any samples do not show why so many are lost
        self._reordered(estimate)
        leave_room(estimate, self.facts, self.shards, self.world_size)
        leave_out_rest(estimate, self.facts, self.shards, collation_drops=self.prober.process.collation_drops)
        if estimate.crash is None:
            estimate.crash = failing_batch(self.prober, self.shards, shapes, estimate, self.facts, self.limits)
        samples = max(self.evidence.samples, estimate.most)
        more = ""
        if estimate.whole and self.prober.elements > 1:
            samples = max(samples, estimate.most + never_out(shapes))
            more = (
                f"one sample gives several elements: {estimate.likely:,} come out of {self.evidence.samples:,} samples"
            )
        told = judge_split(self.facts, self.evidence.shards, shapes, self.world_size)
        first = [Reason("workers", 0, told.starved)] if told.starved else []
        lacking = unknown_here(estimate, self.prober.process.fault, self.evidence.samples)
        outcome = estimate.outcome(samples, max_loss, repeats=self.facts.resampled or self._repeats)
        if outcome == "not known":
            first += lacking or [Reason("not-known", 0, self._why_not_known(estimate))]
        counting = Counting(self.reading, estimate, samples) if estimate.whole else None
        reasons = first + reasons_of(estimate, shapes, self.damage, self.evidence, samples, self.facts)
        return Verdict(
            reader=PIPELINE,
            title=spec,
            outcome=outcome if outcome == "crashes" or not told.outcome else told.outcome,
            samples=samples,
            usable=estimate.most,
            least=None if estimate.least == estimate.most else estimate.least,
            reasons=tuple(reasons),
            funnel=Funnel(
                sum(shard.members for shard in self.shards),
                sum(each.count for each in groups),
                *[estimate.most] * 3,
            ),
            exact=estimate.least == estimate.most,
            note="; ".join(filter(None, [note_of(spec, shapes, estimate, self.facts), more, told.note])),
            advice=advise_pipeline(self.prober, self.facts, shapes, self.evidence, spec, counting),
            lost=lost_by_slug(reasons),
        )

    def _why_not_known(self, found: Estimate) -> str:
        why = ", ".join(dict.fromkeys(found.doubts)) or "the range of the number is wide"
        if found.whole:
            return why
        run = self.reading.run
        done = "" if run is None else f"{run.out:,} came out in {self.reading.seconds:.0f} s of reading in order; "
        full = (
            "" if self.evidence.level == "full" else "; --level full reads all samples in order, however long it takes"
        )
        return f"{done}{why}{full}"

    def _check_built(self, runs: Sequence[ProbeRun], shapes: Sequence[ProbedShape]) -> None:
        """Raise PipelineError if the pipeline cannot even be built; one that needs several shards cannot be probed."""
        if not runs or not all(run.stage == BUILDING and run.how == "raised" for run in runs):
            return
        whole = self.reading.run
        if whole is None or whole.stage == BUILDING:
            line = f"{runs[0].line}: " if runs[0].line else ""
            raise PipelineError(f"{self.prober.process.spec} cannot be built: {line}{runs[0].cause}")
        self.prober.patience = 0
        for shape in shapes:
            shape.fates.clear()

    @property
    def _repeats(self) -> bool:
        return self.facts.endless and not self.facts.breaks

    def _from_probes(self, shapes: Sequence[ProbedShape], rare: int) -> Estimate:
        """Multiply what became of the probes by the counts. ``rare``: samples of shapes that were not probed."""
        found = Estimate(most=rare, came=self.reading.came(self.facts))
        self._packed(shapes, found)
        self._try_rare(shapes)
        self._more_probes(shapes)
        if rare:
            found.doubts.append(f"{rare:,} samples have rare shapes, which were not probed")
        typical = typical_share(shapes)
        found.likely = round(typical * rare)
        for shape in shapes:
            self._add(shape, found, typical)
        self._ends(shapes, found)
        self._joined(shapes, found)
        if self.facts.slices:
            found.open_below("a stage takes some samples only, by their places")
        if self.prober.elements > 1:
            found.came = 0
            found.open_below("one sample gives several elements")
            found.most = max(found.most, self.prober.elements * self.evidence.samples)
        if self.facts.columns_by:
            leave_open(found, self.facts.columns_by, self.prober, self.evidence, self.options)
        if self.facts.gathers and found.came and not any(shape.usable for shape in shapes):
            found.open_below("nothing comes out for one sample alone: perhaps it gives batches")
            found.most = max(found.most, self.evidence.samples)
        if self.prober.copies > 1:
            found.open_below("it gives batches, whose samples cannot be told apart")
        if self.facts.opaque and any(shard.tally("key.again").count for shard in self.shards):
            found.open_below("some samples are not adjacent, and how it groups members is not known")
            found.most = max(found.most, self.evidence.samples)
        if found.crash is not None or found.hang is not None:
            found.open_below("how many samples come out before the end depends on the order")
        else:
            self._together(shapes, found)
            self._unread(shapes, found, rare)
        found.least = max(found.least, found.came)
        limit = found.most if self.facts.limit is None else self.facts.limit
        found.most = max(found.least, min(found.most, limit))
        return found

    def _try_rare(self, shapes: Sequence[ProbedShape]) -> None:
        unusual = rare_samples(self.shards, self.options, self.prober.tars, self.limits.rare)
        self.prober.try_rare(shapes, unusual, self.limits.rare_seconds)

    def _unread(self, shapes: Sequence[ProbedShape], found: Estimate, rare: int) -> None:
        """Leave the number open where a sample that was not tried may end the run, or where order decides."""
        untried = rare + sum(shape.group.count - len(shape.tried) for shape in shapes)
        strict = self.facts.decodes_strictly and self.evidence.level != "full"
        ends = self.facts.may_end[:1] or ["a decoder without a handler"] * strict
        if untried and ends:
            found.open_below(f"{ends[0]} may end the run at one of the samples that were not read")
        elif self.facts.batches and self.facts.may_end:
            found.open_below("samples that come out alone may not fit into one batch")
        if doubt := self.reading.doubt(self.facts, shapes):
            found.open_below(doubt)

    def _packed(self, shapes: Sequence[ProbedShape], found: Estimate) -> None:
        """Leave out compressed shards that the pipeline cannot read: it is tried on one of each kind."""
        packed: dict[str, list[ShardEvidence]] = {}
        for shard in self.shards:
            if shard.compression is not None and shard.error is None:
                packed.setdefault(shard.compression, []).append(shard)
        for kind, some in packed.items():
            shard = min(some, key=lambda each: each.size or 0)
            if (shard.size or 0) > MOST_BYTES:
                found.open_below(f"whether it reads shards compressed by {kind} was not tried")
                continue
            run = self.prober.run([shard.url])
            if run.how == "raised" and not run.out:
                found.crash = found.crash or run
            elif not run.out and any(shape.usable for shape in shapes):
                leave_out({each.url for each in some}, some, [shape.group for shape in shapes])
                for shape in shapes:
                    shape.fates = {place: shape.fates[place] for place in shape.group.places if place in shape.fates}
                self.shards = [each for each in self.shards if each not in some]

    def _more_probes(self, shapes: Sequence[ProbedShape]) -> None:
        """Spread what is left of the probes over the shapes: small ones are probed wholly, large ones get the rest."""
        if self.facts.blind and self.evidence.level == "full" and all(map(agree, shapes)):
            return
        add_places([shape.group for shape in shapes], self.shards, self.options, 16 * self.limits.samples)
        ends = time.monotonic() + self.limits.all_seconds
        left = self.limits.samples - sum(len(shape.fates) for shape in shapes)
        for number, shape in enumerate(sorted(shapes, key=lambda each: each.group.count)):
            if left <= 0:
                return
            before = len(shape.fates)
            if not any(fate.kind == "hang" for fate in shape.fates.values()):  # each would cost the whole limit
                share = (ends - time.monotonic()) / (len(shapes) - number)
                self.prober.more(shape, max(1, left // (len(shapes) - number)), share)
            left -= len(shape.fates) - before

    def _add(self, shape: ProbedShape, found: Estimate, typical: float) -> None:
        picked = sum(fate.kind == "usable" for fate in shape.rare.values())
        count, tried, usable = shape.group.count - len(shape.rare), len(shape.fates), shape.usable
        share = usable / tried if tried else typical
        known = self.evidence.level == "full" and not any(part.status == UNKNOWN for part in shape.group.shape)
        if self.facts.blind and known and tried and agree(shape):
            low = high = round(share * (count - tried))
        else:
            low, high = bounds(usable, tried, count - tried)
        if self.facts.chance:  # the probes themselves would fare differently next time
            spread = 4 * math.isqrt(count) + 1
            low, high = bounds(usable, tried, count)
            low, high = max(0, low - spread) - usable, min(count, high + spread) - usable
            found.doubts.append("samples are dropped by chance")
        found.least += picked + usable + low
        found.likely += picked + usable + round(share * (count - tried))
        found.most += picked + usable + high
        if low != high and tried < count:
            why = (
                "not every sample was probed" if agree(shape) or not tried else "samples of one shape fare differently"
            )
            found.doubts.append(why)
        for place, fate in shape.tried.items():
            if fate.kind in ("crash", "hang") and self.facts.slices and not self.reading.reaches(place, self.facts):
                found.open_below("at a sample that a stage may leave out by its place, the run would end")
                continue
            if fate.kind == "crash" and self.facts.columns_by and fate.run.stage == "building the pipeline":
                continue  # others, read before, may decide
            if fate.kind == "crash":
                found.crash = found.crash or fate.run
            elif fate.kind == "hang":
                found.hang = found.hang or fate.run
            elif fate.kind.startswith("ends") and not self.facts.chance:
                found.open_below(f"{fate.run.stage or 'the pipeline'} stops reading at some samples")

    def _ends(self, shapes: Sequence[ProbedShape], found: Estimate) -> None:
        """Try the ends of damaged shards as they are: a sample may have lost some of its members there."""
        joined = {url for chain in joined_chains(self.shards) for url, _ in chain[:-1]}
        damaged = [shard for shard in self.shards if is_damaged(shard) and shard.url not in joined]
        for index, shard in enumerate(damaged):
            fate = self.prober.rest(shard) if index < self.limits.damaged else None
            last = shard.runs.last
            counted = counted_in(shapes, [] if last is None else [(shard.url, last)])
            if fate is None:
                found.shift(0 if last is None else 1, counted)
                found.least = max(0, found.least - 1)
                found.doubts.append("the ends of some damaged shards were not tried")
                continue
            self.damage[shard.url] = fate
            if fate.kind == "crash":
                found.crash = found.crash or fate.run
            elif fate.kind == "hang":
                found.hang = found.hang or fate.run
            elif fate.kind == "ends-stream":
                found.open_below("the pipeline stops reading at a damaged shard")
            else:
                found.shift(int(fate.kind == "usable"), counted)

    def _joined(self, shapes: Sequence[ProbedShape], found: Estimate) -> None:
        """Try what becomes of samples whose key two shards share: webdataset 0.2 makes one of them."""
        by_url = {shard.url: shard for shard in self.shards}
        for index, chain in enumerate(joined_chains(self.shards)):
            counted = counted_in(shapes, chain)
            tars = [
                self.prober.tars.rest(by_url[url])
                if is_damaged(by_url[url]) and number < len(chain) - 1
                else self.prober.tars.tar(SamplePlace(url, run.offset, run.key))
                for number, (url, run) in enumerate(chain)
            ]
            urls = [tar for tar in tars if tar is not None]
            if index >= self.limits.damaged or len(urls) < len(tars):
                found.shift(len(chain), counted)
                found.least = max(0, found.least - len(chain))
                found.doubts.append("some shards begin with the key with which the one before ends")
                continue
            run = self.prober.run(urls)
            if run.how == "raised":
                found.crash = found.crash or run
            found.shift(run.out, counted)

    def _reordered(self, found: Estimate) -> None:
        """Leave room for samples that webdataset 0.2 joins where shards meet in another order."""
        known = self.facts.source == "list" and not self.facts.mixes_shards and self.facts.workers <= 1
        settled = known or (found.whole and not (self.facts.mixes_shards or self.facts.workers))
        count = 0 if settled else meetings(self.shards)
        if count and "check_empty" not in " ".join(self.facts.stages):  # of webdataset 1.x, which joins none
            found.least, found.most = (
                max(0, found.least - 2 * count),
                max(found.most, min(self.evidence.samples, found.most + count)),
            )
            found.doubts.append("some shards end with the key with which others begin, and their order is not known")

    def _together(self, shapes: Sequence[ProbedShape], found: Estimate) -> None:
        """Read all probed samples together: those that come out alone should come out again."""
        fates: dict[str, tuple[SamplePlace, ProbedFate]] = {}
        seconds = 0.0
        probes = ((place, fate) for shape in shapes for place, fate in shape.tried.items())
        for place, fate in sorted(probes, key=lambda each: self.prober.cost.get(each[0], 0.0)):
            seconds += self.prober.cost.get(place, 0.0)
            if seconds > self.limits.seconds / 2 and fates:
                break  # the largest are left out: all must be read within the limit of one run
            fates[place.key] = (place, fate)
        places = (place for place, _ in fates.values())
        path = self.prober.tars.tar(*in_order(self.shards, places)) if fates else None
        if path is None or self.prober.elements > 1:
            return
        alone = sum(fate.kind == "usable" for _, fate in fates.values())
        if self.prober.patience <= 0:
            return
        run = self.prober.run([path], most=1 << 40)
        if run.how == "slow":
            found.doubts.append("reading probes together took too long")
            return
        if run.how == "raised" and not self.facts.columns_by and not self.facts.slices:
            found.crash = run
        if self.facts.chance:
            low, high = bounds(alone, len(fates), len(fates))
            alone = min(max(low, run.out), high)
        if run.out != alone:
            found.open_below(f"{alone:,} probes come out alone, and {run.out:,} of them together")
            if run.out > alone:
                found.most = max(found.most, self.evidence.samples)
