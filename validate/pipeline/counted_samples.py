"""Samples that are counted one by one: where shards are damaged, or meet."""

from collections.abc import Iterator, Sequence

from wdsflow.scan.evidence import Run, ShardEvidence
from wdsflow.text.words import how_many

from .estimate import Estimate
from .fates import ProbedShape, agree
from .probe_samples import SamplePlace
from .rewire import PipelineFacts


def joined_chains(shards: Sequence[ShardEvidence]) -> Iterator[list[tuple[str, Run]]]:
    """Yield the last and first samples of neighbouring shards that share a key."""
    chain: list[tuple[str, Run]] = []
    for shard in shards:
        head, tail = shard.runs.head, shard.runs.tail
        if head is None:
            continue
        if chain and chain[-1][1].key == head.key:
            chain.append((shard.url, head))
        else:
            if len(chain) > 1:
                yield chain
            chain = [(shard.url, head)]
        if tail is not None:
            if len(chain) > 1:
                yield chain
            chain = [(shard.url, tail)]
    if len(chain) > 1:
        yield chain


def is_damaged(shard: ShardEvidence) -> bool:
    """Return whether some readers do not read a shard to its end."""
    return shard.error is not None or shard.stop.kind in ("error", "silent")


def counted_in(shapes: Sequence[ProbedShape], runs: Sequence[tuple[str, Run]]) -> tuple[int, int]:
    """Return how many of some samples come out, at least and at most, as far as they or their shapes were probed."""
    by_shape = {shape.group.shape: shape for shape in shapes}
    least = most = 0
    for url, run in runs:
        shape = by_shape.get(run.shape)
        fate = None if shape is None else shape.tried.get(SamplePlace(url, run.offset, run.key))
        if shape is None or (fate is None and not agree(shape)):
            most += 1
        elif fate.kind == "usable" if fate is not None else shape.usable:
            least, most = least + 1, most + 1
    return least, most


def typical_share(shapes: Sequence[ProbedShape]) -> float:
    """Return the share of all probes that came out."""
    tried = sum(len(shape.fates) for shape in shapes)
    return sum(shape.usable for shape in shapes) / tried if tried else 0.0


def never_out(shapes: Sequence[ProbedShape]) -> int:
    """Return how many samples do not come out, by the shares of the probes."""
    tried = (shape for shape in shapes if shape.fates)
    return sum(round(shape.group.count * (1 - shape.usable / len(shape.fates))) for shape in tried)


def note_of(spec: str, shapes: Sequence[ProbedShape], found: Estimate, facts: PipelineFacts) -> str:
    """Return what was run, and why the number is a range."""
    tried = sum(len(shape.tried) for shape in shapes)
    text = f"{spec} was run over {how_many(tried, 'sample')} of {how_many(len(shapes), 'shape')}"
    text += ", and over all shards once" if found.whole else ""
    if found.least != found.most and found.doubts:
        text += f"; the number is a range: {', '.join(dict.fromkeys(found.doubts))}"
    if facts.resampled or facts.endless:
        text += "; it repeats its shards, and the number is that of one pass"
    return text
