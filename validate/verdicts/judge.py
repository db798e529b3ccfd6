"""Judges a reader on shards: its passes over them are computed, and become a verdict."""

from collections import Counter
from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.statuses import SUSPECT, UNKNOWN, UNSAFE
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .all_passes import AllPasses, pass_over_all, uncounted_samples
from .loss_reasons import loss_reasons
from .reader_pass import PassResult
from .undecoded import depends_on, without_contents
from .verdict import Funnel, Outcome, Reason, Verdict

_WORSE: tuple[Outcome, ...] = ("trains", "loses", "stalls", "crashes")
_OPEN_END = (
    "shards are read in parallel: how many samples come out before the exception is not known"
)
_DOUBTFUL = "their contents are too large to be decoded here, or a pickle looks broken"


def judge(evidence: Evidence, reader: Reader, max_loss: float = 0.05) -> Verdict:
    """Return the verdict of a reader on one pass over the shards, in the reader's own order.

    If contents could not be decoded although something speaks against them, the number of usable
    samples is a range, and its lower end decides about the outcome.

    Args:
        evidence: evidence of the scan.
        reader: the reader.
        max_loss: share of samples, 0 to 1, that may be lost before "trains" becomes "loses".
    """
    passes = pass_over_all(reader, evidence.shards)
    result = passes.result
    samples = evidence.samples + result.split + uncounted_samples(reader, evidence.shards)
    outcome = _outcome(passes, samples, max_loss)
    reasons = loss_reasons(result, evidence, samples, reader)
    # How many samples come out before an exception is not known.
    has_open_end = result.crash is not None and reader.in_parallel and result.usable > 0
    least = 0 if has_open_end else None

    if depends_on(reader, evidence, {SUSPECT}):
        suspected = [without_contents(shard, {SUSPECT}) for shard in evidence.shards]
        worse = pass_over_all(reader, suspected)
        outcome = max(outcome, _outcome(worse, samples, max_loss), key=_WORSE.index)
        if evidence.level == "full" and not has_open_end:
            least = worse.result.usable
        doubtful = result.usable - worse.result.usable
        if doubtful:
            text = f"{how_many(doubtful, 'more sample')} may be lost: {_DOUBTFUL}"
            reasons.append(Reason("suspect", 0, text))

    pickled = depends_on(reader, evidence, {UNSAFE})
    guessed = depends_on(reader, evidence, {UNKNOWN, SUSPECT})
    unknown = "" if evidence.level == "names" else reader.why_uncertain(evidence.shards)
    is_doubtful = has_open_end or guessed or pickled or bool(unknown)
    notes = [_note(evidence, unknown, pickled=pickled)]
    if has_open_end:
        notes.append(_OPEN_END)
    return Verdict(
        reader=reader.name,
        title=reader.title,
        outcome=outcome,
        samples=samples,
        usable=result.usable,
        reasons=tuple(reasons),
        funnel=_funnel(evidence, result),
        exact=evidence.level == "full" and not is_doubtful,
        note="; ".join(filter(None, notes)),
        least=least,
        lost=_lost(result),
        barren=tuple(_barren_shards(evidence, reader)),
        reports_losses=reader.reports_losses,
        pairs_with=reader.pairs_with,
    )


def _outcome(passes: AllPasses, samples: int, max_loss: float) -> Outcome:
    result = passes.result
    if result.crash is not None:
        return "crashes"
    if passes.hangs:
        return "stalls"
    if not result.usable or samples - result.usable > max_loss * samples:
        return "loses"
    return "trains"


def _funnel(evidence: Evidence, result: PassResult) -> Funnel:
    members = sum(shard.members for shard in evidence.shards)
    return Funnel(members, result.formed, result.complete, result.decoded, result.usable)


def _lost(result: PassResult) -> dict[str, int]:
    """Return how many samples are lost, by reason, whatever the field."""
    lost: Counter[str] = Counter()
    for loss, count in result.lost.items():
        lost[loss.reason] += count
    return dict(lost)


def _barren_shards(evidence: Evidence, reader: Reader) -> Iterator[str]:
    """Yield the readable shards from which no sample reaches a batch."""
    bound = reader.bound_to(evidence.shards)
    for shard in evidence.shards:
        if shard.error is not None:
            continue
        shapes = bound.runs(shard).shapes() if bound.opens(shard) else ()
        fates = [fate for shape in shapes for fate in bound.fates(shape)]
        if not any(fate.kind == "usable" for fate in fates):
            yield shard.url


def _note(evidence: Evidence, unknown: str, *, pickled: bool) -> str:
    """Return the limits of the level, and assumptions."""
    if evidence.level == "names":
        return "names only: contents were not read; a caption or image that does not decode is counted as usable"
    if unknown:
        return f"the verdict is not exact: {escape(unknown)}"
    if evidence.level == "headers":
        return "images were judged by their first and last bytes, and only suspicious ones decoded; --level full is exact"
    return "pickled fields are never opened here: they are taken as valid" if pickled else ""
