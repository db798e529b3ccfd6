"""The verdict on the user's own pipeline: probes of each shape, multiplied by the counts of the scan."""

import math
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from wdsflow.readers.energon import meetings
from wdsflow.scan.evidence import UNKNOWN, Evidence, ScanOptions, ShardEvidence
from wdsflow.text.words import how_many

from ..verdicts.verdict import PIPELINE, Funnel, Reason, Verdict
from .fates import Estimate, ProbedFate, ProbedShape, ProbeLimits, Prober, bounds, is_damaged, joined_chains
from .load_pipeline import PipelineError
from .probe_batches import failing_batch, leave_open, leave_out_rest
from .probe_process import BUILDING, ProbeProcess, ProbeRun
from .probe_reasons import advise_pipeline, lost_by_slug, reasons_of, unknown_here
from .probe_samples import MOST_BYTES, SamplePlace, TinyTars, add_places, leave_out, rare_samples, shape_groups
from .reading import ReadingInOrder, judge_split, leave_room

__all__ = ["PipelineError", "ProbeLimits", "probe_pipeline"]


def probe_pipeline(
    pipeline: str | ProbeProcess,
    evidence: Evidence,
    options: ScanOptions,
    max_loss: float = 0.05,
    limits: ProbeLimits | None = None,
    world_size: int = 1,
) -> Verdict:
    """Return the verdict on a pipeline, by running it over some real samples in its own process.

    Args:
        pipeline: ``module:object`` or ``train.py:object``, see ``find`` and ``build``; or its process, which keeps running.
        evidence: of the scan of all shards.
        options: of that scan.
        max_loss: share of samples, 0 to 1, that may be lost before the outcome is "loses".
        limits: of the probes.
        world_size: ranks that train.

    Raises:
        PipelineError: the pipeline cannot be found, imported or built.
    """
    started = nullcontext(pipeline) if isinstance(pipeline, ProbeProcess) else ProbeProcess(pipeline)
    with started as process, tempfile.TemporaryDirectory(prefix="wdsflow-probe-") as folder:
        tars = TinyTars(Path(folder), allow_pipe=options.allow_pipe)
        return _Probing(Prober(process, tars, evidence, options, limits or ProbeLimits())).verdict(max_loss, world_size)


class _Probing:
    def __init__(self, prober: Prober) -> None:
        self.prober, self.evidence, self.limits = prober, prober.evidence, prober.limits
        self.shards = prober.evidence.shards  # that the pipeline reads
        self.damage: dict[str, ProbedFate] = {}
        self.reading = ReadingInOrder(prober)

    def verdict(self, max_loss: float, world_size: int) -> Verdict:
        prober, fault = self.prober, self.prober.process.fault
        groups = shape_groups(self.shards)
        self.shapes = prober.first_round(groups[: self.limits.shapes])
        runs = [fate.run for shape in self.shapes for fate in shape.fates.values()] or ([fault] if fault else [])
        facts = prober.facts = next((run.facts for run in runs if run.facts is not None), prober.facts)
        self.facts = facts
        facts.chance |= prober.chance
        estimate = self.reading.estimate()
        self._check_built(runs)
        if estimate is None:
            estimate = self._from_probes(sum(each.count for each in groups[len(self.shapes) :]))
        elif estimate.crash is None and estimate.likely + prober.never_out() < self.evidence.samples:
            self._try_rare()  # probes of random samples do not explain so many losses
        self._reordered(estimate)
        leave_room(estimate, facts, self.shards, world_size)
        leave_out_rest(estimate, facts, self.shards, collation_drops=prober.process.collation_drops)
        if estimate.crash is None:
            estimate.crash = failing_batch(prober, self.shards, estimate)
        samples, more = max(self.evidence.samples, estimate.most), ""
        if estimate.whole and prober.elements > 1:
            samples = max(samples, estimate.most + prober.never_out())
            more = f"{estimate.likely:,} come out of {self.evidence.samples:,} samples"
            more = f"one sample gives several elements: {more}"
        split = judge_split(facts, self.evidence.shards, self.shapes, world_size)
        first = [Reason("workers", 0, split.starved)] if split.starved else []
        lacking = unknown_here(estimate, prober.process.fault, self.evidence.samples)
        outcome = estimate.outcome(samples, max_loss, repeats=facts.resampled or (facts.endless and not facts.breaks))
        if outcome == "not known":
            first += lacking or [Reason("not-known", 0, self._why_not_known(estimate))]
        reasons = first + reasons_of(estimate, self.shapes, self.damage, self.evidence, samples, facts)
        spec, exact = prober.process.spec, estimate.least == estimate.most
        return Verdict(
            reader=PIPELINE,
            title=spec,
            outcome=outcome if outcome == "crashes" or not split.outcome else split.outcome,
            samples=samples,
            usable=estimate.most,
            least=None if exact else estimate.least,
            reasons=tuple(reasons),
            funnel=Funnel(
                sum(shard.members for shard in self.shards),
                sum(each.count for each in groups),
                *[estimate.most] * 3,
            ),
            exact=exact,
            note="; ".join(filter(None, [prober.note(estimate), more, split.note])),
            advice=advise_pipeline(self.reading, estimate, samples),
            lost=lost_by_slug(reasons),
        )

    def _why_not_known(self, found: Estimate) -> str:
        why = ", ".join(dict.fromkeys(found.doubts)) or "the range of the number is wide"
        if found.whole:
            return why
        run = self.reading.run
        done = "" if run is None else f"{run.out:,} came out in {self.reading.seconds:.0f} s of reading in order; "
        full = "; --level full reads all samples in order, however long it takes"
        return f"{done}{why}{'' if self.evidence.level == 'full' else full}"

    def _check_built(self, runs: list[ProbeRun]) -> None:
        """Raise PipelineError if the pipeline cannot be built, or cannot be probed because it needs several shards."""
        if not runs or not all(run.stage == BUILDING and run.how == "raised" for run in runs):
            return
        whole = self.reading.run
        if whole is None or whole.stage == BUILDING:
            line = f"{runs[0].line}: " if runs[0].line else ""
            raise PipelineError(f"{self.prober.process.spec} cannot be built: {line}{runs[0].cause}")
        self.prober.patience = 0
        for shape in self.shapes:
            shape.fates.clear()

    def _from_probes(self, rare: int) -> Estimate:
        """Scale the fates of the probes by the counts. ``rare``: samples of shapes that were not probed."""
        found, facts, samples = Estimate(most=rare, came=self.reading.came()), self.facts, self.evidence.samples
        self._packed(found)
        self._try_rare()
        self._more_probes()
        if rare:
            found.doubts.append(f"{how_many(rare, 'sample')} of rare shapes, not probed")
        tried = sum(len(shape.fates) for shape in self.shapes)
        typical = sum(shape.usable for shape in self.shapes) / tried if tried else 0.0
        found.likely = round(typical * rare)
        for shape in self.shapes:
            self._add(shape, found, typical)
        self._ends(found)
        self._joined(found)
        if facts.slices:
            found.open_below("a stage takes some samples only, by their places")
        if self.prober.elements > 1:
            found.came = 0
            found.open_below("one sample gives several elements", self.prober.elements * samples)
        if facts.columns_by:
            leave_open(self.prober, found)
        if facts.gathers and found.came and not any(shape.usable for shape in self.shapes):
            found.open_below("nothing comes out for one sample alone: perhaps it gives batches", samples)
        if self.prober.copies > 1:
            found.open_below("it gives batches, whose samples cannot be told apart")
        if facts.opaque and any(shard.tally("key.again").count for shard in self.shards):
            found.open_below("some samples are not adjacent, and how it groups members is not known", samples)
        if found.crash is not None or found.hang is not None:
            found.open_below("how many samples come out before the end depends on the order")
        else:
            self._together(found)
            self._unread(found, rare)
        found.least = max(found.least, found.came)
        limit = found.most if facts.limit is None else facts.limit
        found.most = max(found.least, min(found.most, limit))
        return found

    def _try_rare(self) -> None:
        unusual = rare_samples(self.shards, self.prober.options, self.prober.tars, self.limits.rare)
        self.prober.try_rare(unusual)

    def _unread(self, found: Estimate, rare: int) -> None:
        """Widen the range if an untested sample may end the run, or if the result depends on order."""
        untried = rare + sum(shape.group.count - len(shape.tried) for shape in self.shapes)
        strict = self.facts.decodes_strictly and self.evidence.level != "full"
        ends = self.facts.may_end[:1] or ["a decoder without a handler"] * strict
        if untried and ends:
            found.open_below(f"{ends[0]} may end the run at one of the samples that were not read")
        elif self.facts.batches and self.facts.may_end:
            found.open_below("samples that come out alone may not fit into one batch")
        if doubt := self.reading.doubt():
            found.open_below(doubt)

    def _packed(self, found: Estimate) -> None:
        """Subtract compressed shards that the pipeline cannot read: one of each kind is probed."""
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
            elif not run.out and any(shape.usable for shape in self.shapes):
                leave_out(some, [shape.group for shape in self.shapes])
                for shape in self.shapes:
                    shape.fates = {place: shape.fates[place] for place in shape.group.places if place in shape.fates}
                self.shards = [each for each in self.shards if each not in some]

    def _more_probes(self) -> None:
        """Distribute the remaining probes over the shapes: small ones are probed fully, large ones get the rest."""
        if self.facts.blind and self.evidence.level == "full" and all(shape.agrees for shape in self.shapes):
            return
        groups = [shape.group for shape in self.shapes]
        add_places(groups, self.shards, self.prober.options, 16 * self.limits.samples)
        ends = time.monotonic() + self.limits.all_seconds
        left = self.limits.samples - sum(len(shape.fates) for shape in self.shapes)
        for number, shape in enumerate(sorted(self.shapes, key=lambda each: each.group.count)):
            if left <= 0:
                return
            before = len(shape.fates)
            if not any(fate.kind == "hang" for fate in shape.fates.values()):  # each would take the whole time limit
                share = (ends - time.monotonic()) / (len(self.shapes) - number)
                self.prober.more(shape, max(1, left // (len(self.shapes) - number)), share)
            left -= len(shape.fates) - before

    def _add(self, shape: ProbedShape, found: Estimate, typical: float) -> None:
        picked = sum(fate.kind == "usable" for fate in shape.rare.values())
        count, tried, usable = shape.group.count - len(shape.rare), len(shape.fates), shape.usable
        share = usable / tried if tried else typical
        known = self.evidence.level == "full" and not any(part.status == UNKNOWN for part in shape.group.shape)
        if self.facts.blind and known and tried and shape.agrees:
            low = high = round(share * (count - tried))
        else:
            low, high = bounds(usable, tried, count - tried)
        if self.facts.chance:  # the probes themselves are not reproducible
            spread = 4 * math.isqrt(count) + 1
            low, high = bounds(usable, tried, count)
            low, high = max(0, low - spread) - usable, min(count, high + spread) - usable
            found.doubts.append("samples are dropped by chance")
        found.least += picked + usable + low
        found.likely += picked + usable + round(share * (count - tried))
        found.most += picked + usable + high
        if low != high and tried < count:
            all_alike = shape.agrees or not tried
            found.doubts.append("not every sample was probed" if all_alike else "samples of one shape fare differently")
        for place, fate in shape.tried.items():
            if fate.kind in ("crash", "hang") and self.facts.slices and not self.reading.reaches(place):
                found.open_below("at a sample that a stage may leave out by its place, the run would end")
            elif fate.kind == "crash" and self.facts.columns_by and fate.run.stage == BUILDING:
                continue  # others, read earlier, may decide
            elif fate.kind.startswith("ends") and not self.facts.chance:
                found.open_below(f"{fate.run.stage or 'the pipeline'} stops reading at some samples")
            else:
                found.end_by(fate)

    def _ends(self, found: Estimate) -> None:
        """Probe the damaged ends of shards unchanged: a sample may have lost some of its members there."""
        joined = {url for chain in joined_chains(self.shards) for url, _ in chain[:-1]}
        damaged = [shard for shard in self.shards if is_damaged(shard) and shard.url not in joined]
        for index, shard in enumerate(damaged):
            fate = self.prober.rest(shard) if index < self.limits.damaged else None
            last = shard.runs.last
            counted = self.prober.counted_in([] if last is None else [(shard.url, last)])
            if fate is None:
                found.shift(0 if last is None else 1, counted)
                found.least = max(0, found.least - 1)
                found.doubts.append("the ends of some damaged shards were not tried")
                continue
            self.damage[shard.url] = fate
            if fate.kind == "ends-stream":
                found.open_below("the pipeline stops reading at a damaged shard")
            elif not found.end_by(fate):
                found.shift(int(fate.kind == "usable"), counted)

    def _joined(self, found: Estimate) -> None:
        """Probe samples whose key two shards share: webdataset 0.2 joins them into one."""
        by_url = {shard.url: shard for shard in self.shards}
        for index, chain in enumerate(joined_chains(self.shards)):
            counted = self.prober.counted_in(chain)
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
        """Widen the range for samples that webdataset 0.2 joins if shards are in another order."""
        known = self.facts.source == "list" and not self.facts.mixes_shards and self.facts.workers <= 1
        settled = known or (found.whole and not (self.facts.mixes_shards or self.facts.workers))
        count = 0 if settled else meetings(self.shards)
        if count and "check_empty" not in " ".join(self.facts.stages):  # webdataset 1.x, which joins none
            found.least = max(0, found.least - 2 * count)
            found.most = max(found.most, min(self.evidence.samples, found.most + count))
            found.doubts.append("some shards end with the key with which others begin, and their order is not known")

    def _together(self, found: Estimate) -> None:
        """Read all probed samples together: those that come out alone should come out again."""
        fates: dict[str, tuple[SamplePlace, ProbedFate]] = {}
        seconds, cost = 0.0, self.prober.cost
        probes = ((place, fate) for shape in self.shapes for place, fate in shape.tried.items())
        for place, fate in sorted(probes, key=lambda each: cost.get(each[0], 0.0)):
            seconds += cost.get(place, 0.0)
            if seconds > self.limits.seconds / 2 and fates:
                break  # skip the largest: all must be read within the limit of one run
            fates[place.key] = (place, fate)
        numbers = {shard.url: number for number, shard in enumerate(self.shards)}
        # In the order of the set: the user's code may carry state from one sample to the next.
        places = sorted((place for place, _ in fates.values()), key=lambda each: (numbers[each.shard], each.offset))
        path = self.prober.tars.tar(*places) if fates else None
        if path is None or self.prober.elements > 1 or self.prober.patience <= 0:
            return
        alone = sum(fate.kind == "usable" for _, fate in fates.values())
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
            most = self.evidence.samples if run.out > alone else 0
            found.open_below(f"{alone:,} probes come out alone, and {run.out:,} of them together", most)
