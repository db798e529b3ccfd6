"""A verdict in words: its numbers, its reasons, and what it means for the run."""

from wdsflow.text.words import how_many, plain_line

from ..verdicts.pipeline_run import PipelineRun
from ..verdicts.verdict import Funnel, Outcome, Verdict
from ..verdicts.wording import short_loss_text

_CONSEQUENCES: dict[Outcome, str] = {
    "trains": "",
    "loses": "it runs, but the loss is silent",
    "stalls": "training would hang, without an error",
    "crashes": "an exception would end the run",
    "refused": "training does not start",
    "not judged": "",
}


def consequence(verdict: Verdict) -> str:
    """Return what an outcome means for the run; "" if nothing is wrong."""
    if verdict.outcome == "loses" and verdict.reports_losses:
        return "it runs, and reports what it leaves out"
    # Its handlers may well warn.
    if verdict.run is not None and verdict.outcome == "loses":
        return "it runs, on fewer samples" if verdict.usable else "it runs, without a sample"
    if verdict.run is not None and verdict.outcome in ("crashes", "stalls", "not judged"):
        # The first reason says what happened.
        return ""
    return _CONSEQUENCES[verdict.outcome]


def summary_and_reasons(verdict: Verdict) -> tuple[str, list[str]]:
    """Return the numbers of the outcome, and the reasons that need separate lines."""
    reasons = [plain_line(reason.message) for reason in verdict.reasons]
    if verdict.run is not None:
        return _observed(verdict, verdict.run), reasons
    if verdict.outcome == "refused":
        return reasons[0], reasons[1:]
    text = _numbers(verdict)
    has_counts = any(reason.count for reason in verdict.reasons)
    if (
        verdict.usable == verdict.samples
        and verdict.outcome in ("trains", "loses")
        and not has_counts
    ):
        # Only junk is left out, and junk is not counted as samples.
        return text, []
    if (
        len(reasons) > 1
        or not reasons
        or verdict.reasons[0].count < verdict.samples - verdict.usable
    ):
        return text, reasons
    # One reason for all losses: "12 of 12 samples: no caption field" repeats the count.
    only = verdict.reasons[0]
    lack = short_loss_text(only.slug, only.count) if verdict.usable else ""
    if lack:
        return f"{text} ({lack})", []
    return f"{text}: {reasons[0].partition(' samples: ')[2] or reasons[0]}", []


def _numbers(verdict: Verdict) -> str:
    usable = f"{verdict.usable:,}"
    if verdict.least is not None:
        usable = f"{verdict.least:,} to {usable}"
    elif verdict.usable and not verdict.exact:
        usable = f"up to {usable}"
    fate = "reach a batch" if verdict.reaches_batches else "are usable"
    return f"{usable} of {how_many(verdict.samples, 'sample')} {fate}"


def _observed(verdict: Verdict, run: PipelineRun) -> str:
    """Return the numbers of a run, which are about what it read."""
    passes = verdict.outcome in ("trains", "loses")
    if verdict.outcome == "not judged":
        return f"{how_many(run.delivered, 'element')} came out ({run.scope} opened)"
    if run.read is None and not run.whole and not passes:
        return f"{how_many(run.delivered, 'sample')} came out ({run.scope} opened)"
    samples = how_many(verdict.samples, "sample")
    if not run.whole or (run.repeated and verdict.samples == run.read):
        samples = f"the {samples} read ({run.scope})"
    usable = f"{verdict.usable:,}"
    if verdict.least is not None:
        # Without keys, content shows that some samples came out, and how many others may have.
        usable = f"{verdict.least:,} to {usable}" if verdict.least else f"up to {usable}"
    return f"{usable} of {samples} {'reach a batch' if passes else 'came out'}"


def funnel_text(verdict: Verdict, funnel: Funnel) -> str:
    """Return the counts from members to usable samples, up to the first that is zero."""
    samples = "sample" if funnel.samples == 1 else "samples"
    if funnel.samples != verdict.samples:
        samples += " in the reader's grouping"
    stages = [
        (funnel.members, "member" if funnel.members == 1 else "members"),
        (funnel.samples, samples),
        (
            funnel.complete,
            f"{'image +' if funnel.complete else 'with image and'} {verdict.pairs_with}",
        ),
        (funnel.decoded, "decode"),
        (funnel.usable, "in batches" if verdict.reaches_batches else "usable"),
    ]
    texts = []
    for number, name in stages:
        texts.append(f"{number:,} {name}")
        if not number:
            break
    if verdict.least is not None:
        texts[-1] = f"up to {texts[-1]}"
    return " -> ".join(texts)
