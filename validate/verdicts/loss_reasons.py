"""Why samples do not reach a batch, as reasons whose counts add up to the losses."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.naming import is_dotted
from wdsflow.scan.runs import count_merged_samples

from .reader_pass import LossLocation, PassResult
from .verdict import Reason
from .wording import crash_text, fields_of, loss_text, short_title

_JUNK = ("name.appledouble", "name.macosx", "name.hidden")
_NOWHERE = LossLocation(None, None, None)


def loss_reasons(
    result: PassResult, evidence: Evidence, samples: int, reader: Reader
) -> list[Reason]:
    """Return the reasons with counts that add up to the samples that do not reach a batch.

    A reader may form one sample of many, if dots in their keys merge them, or several of one, and
    others of junk.

    Args:
        result: of the reader's passes.
        evidence: of the shards.
        samples: in all shards, as the verdict counts them.
        reader: that was judged.
    """
    reasons = list(_reasons(result, evidence, samples, reader))
    if result.crash is not None:
        return reasons
    lost = max(0, samples - result.usable)
    counted = sum(reason.count for reason in reasons)
    if counted > lost:
        return _as_pieces(reasons, counted, lost, evidence, samples, reader)
    return _with_merged(reasons, counted, lost, result, samples, reader)


def _reasons(
    result: PassResult, evidence: Evidence, samples: int, reader: Reader
) -> Iterator[Reason]:
    """Yield the exception, the losses one by one, and samples that the reader does not get to."""
    crash = result.crash
    if crash is not None and result.crash_location is not None:
        text = crash_text(crash.reason, crash.detail)
        yield Reason(crash.reason, 0, text, *result.crash_location)
    for loss, count in result.lost.most_common():
        text = loss_text(loss.reason, loss.detail, fields_of(result.shapes[loss]))
        yield _counted(loss.reason, count, samples, text, result.first[loss])
    if crash is None:
        yield from _unopened(evidence, samples, reader)
    read = [reader.as_read(shard) for shard in evidence.shards]
    yield from _joined(evidence, read, samples, reader)
    yield from _after_damage(read, samples, reader)


def _unopened(evidence: Evidence, samples: int, reader: Reader) -> Iterator[Reason]:
    """Yield the samples of shards that the reader does not open."""
    readable = [shard for shard in evidence.shards if not shard.error]
    unopened = [shard for shard in readable if shard.samples and not reader.opens(shard)]
    if not unopened:
        return
    location = LossLocation(unopened[0].url, None, unopened[0].stop.offset)
    count = sum(shard.samples for shard in unopened)
    text = f"they are in shards that {reader.unopened}"
    yield _counted("unopened", count, samples, text, location)


def _joined(
    evidence: Evidence, read: list[ShardEvidence], samples: int, reader: Reader
) -> Iterator[Reason]:
    """Yield the reason for samples that the scan finds but the reader does not.

    ``read``: the shards as the reader reads them.
    """
    count = 0
    first: str | None = None
    for shard, as_read in zip(evidence.shards, read, strict=True):
        if as_read is shard or as_read.error is not None:
            continue
        missing = shard.samples - as_read.samples_after_stop - as_read.runs.count
        if missing > 0:
            count += missing
            first = first or shard.url
    if count:
        text = f"{short_title(reader.title)} does not find them as samples of their own"
        yield _counted("joined", count, samples, text, LossLocation(first, None, None))


def _after_damage(read: list[ShardEvidence], samples: int, reader: Reader) -> Iterator[Reason]:
    opened = [shard for shard in read if shard.error or reader.opens(shard)]
    damaged = [shard for shard in opened if shard.samples_after_stop]
    if damaged:
        count = sum(shard.samples_after_stop for shard in damaged)
        location = LossLocation(damaged[0].url, None, damaged[0].stop.offset)
        text = "they are after damage at which readers stop"
        yield _counted("unreached", count, samples, text, location)


def _as_pieces(
    reasons: list[Reason],
    counted: int,
    lost: int,
    evidence: Evidence,
    samples: int,
    reader: Reader,
) -> list[Reason]:
    """Return reasons that count more than is lost as pieces of fewer samples."""
    pieces = []
    for reason in reasons:
        message = f"{reason.count:,} of the {counted:,}: {_text(reason)}"
        pieces.append(replace(reason, count=0, message=message))
    if not lost:
        return pieces
    has_junk = any(shard.tally(name).count for shard in evidence.shards for name in _JUNK)
    junk = " and of junk files" if has_junk else ""
    text = (
        f"{short_title(reader.title)} makes {counted:,} incomplete samples of their members{junk}"
    )
    location = LossLocation(reasons[0].shard, reasons[0].key, reasons[0].offset)
    return [_counted("pieces", lost, samples, text, location), *pieces]


def _with_merged(
    reasons: list[Reason],
    counted: int,
    lost: int,
    result: PassResult,
    samples: int,
    reader: Reader,
) -> list[Reason]:
    """Return reasons that account for all lost samples.

    If they count less than is lost, samples that dots have merged, or that are parts of others, are
    added.
    """
    # The reasons of losses come first, in this order.
    for index, (loss, _) in enumerate(result.lost.most_common()):
        hidden = 0
        for shape, times in result.shapes[loss].items():
            hidden += times * count_merged_samples(shape, is_dotted)
        more = min(lost - counted, hidden)
        if more:
            counted += more
            reason = reasons[index]
            count = reason.count + more
            message = f"{count:,} of {samples:,} samples: {_text(reason)}"
            reasons[index] = replace(reason, count=count, message=message)
    if counted < lost:
        text = f"{short_title(reader.title)} takes their members as parts of other samples"
        reasons.append(_counted("joined", lost - counted, samples, text))
    return sorted(reasons, key=lambda reason: -reason.count)


def _counted(
    slug: str, count: int, samples: int, text: str, location: LossLocation = _NOWHERE
) -> Reason:
    return Reason(slug, count, f"{count:,} of {max(samples, count):,} samples: {text}", *location)


def _text(reason: Reason) -> str:
    """Return the message of a reason without its counts."""
    return reason.message.partition(" samples: ")[2]
