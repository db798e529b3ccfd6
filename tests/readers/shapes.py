"""Shapes written as text."""

from collections.abc import Sequence

from wdsflow.readers import Reader
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.shapes import Part, Run, Runs, Shape, ShapeCount
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.verdicts.judge import judge


def shape(members: str) -> Shape:
    """Return the shape of "jpg txt:empty"; a lone dot stands for an empty field name."""
    parts = []
    for member in members.split():
        suffix, _, status = member.partition(":")
        parts.append(Part("" if suffix == "." else suffix, status or "ok"))
    return tuple(parts)


def outcomes(reader: Reader, members: str) -> list[str]:
    """Return what becomes of each sample, in words."""
    fates = reader.fates(shape(members))
    return [
        "usable"
        if fate.kind == "usable"
        else " ".join(filter(None, ("crash" * (fate.kind == "crash"), fate.reason, fate.detail)))
        for fate in fates
    ]


def verdict(reader: Reader, *shards: ShardEvidence) -> tuple[str, int, list[str]]:
    """Return the outcome, the usable samples and the reasons of a verdict."""
    result = judge(Evidence("full", list(shards)), reader)
    return result.outcome, result.usable, [reason.slug for reason in result.reasons]


def shard(samples: Sequence[str], stop: Stop | None = None, url: str = "a.tar") -> ShardEvidence:
    """Return the evidence of a shard with these samples, one after the other."""
    runs = [
        Run(f"{index:03d}", 1024 * index, shape(members)) for index, members in enumerate(samples)
    ]
    counts: dict[Shape, int] = {}
    inner: list[ShapeCount] = []
    for run in runs[1:-1]:
        if run.shape not in counts:
            inner.append(ShapeCount(run.shape, 0, run.key, run.offset, tuple(counts.values())))
        counts[run.shape] = counts.get(run.shape, 0) + 1
    counted = tuple(
        item.__class__(item.shape, counts[item.shape], item.key, item.offset, item.before)
        for item in inner
    )
    return ShardEvidence(
        single_shard(url),
        samples=len(runs),
        stop=stop or Stop(),
        runs=Runs(runs[0] if runs else None, counted, runs[-1] if len(runs) > 1 else None),
    )
