"""Changes that would bring samples back, tried on the evidence, the most effective first."""

from collections.abc import Iterator, Sequence

from wdsflow.text.shell import escape

from ..finding import Advice
from ..rules.kit.base import Context
from ..verdicts.verdict import Verdict
from .caption_stages import advise_caption_stages
from .energon_captions import advise_field_map
from .openclip_flags import advise_flags
from .repair_advice import advise_repair, why_no_repair
from .repair_forecast import RepairForecast
from .training_advice import advise_defaults, advise_training


def advise(context: Context, forecast: RepairForecast) -> list[Advice]:
    """Return changes that would let more samples through, or let training run, for each reader.

    Every number comes from judging the samples again as they would be after the change. If the
    level did not read all contents, the text says "up to". If nothing is known without a repair,
    the text has no number.

    Args:
        context: the evidence and its verdicts.
        forecast: predicts repairs of the same shards.
    """
    lossy = [verdict for verdict in context.verdicts if _loses(verdict)]
    advice: list[Advice] = []
    shards = context.evidence.shards
    if context.evidence.samples and (lossy or forecast.empty_captions()):
        repair = advise_repair(context, forecast)
        shards = repair.after
        advice += repair.advice
        for verdict in lossy:
            advice += _advise_reader(context, verdict)
            has_advice = any(item.reader == verdict.reader for item in advice)
            if not has_advice and _loses_by_samples(verdict):
                advice.append(why_no_repair(verdict))

    if context.arguments is None:
        return [*advice, *advise_defaults(context, shards)]
    settings = advise_training(context)
    if any(verdict.usable for verdict in lossy):
        # What ends the run comes before what it loses.
        return [*settings, *advice]
    return [*advice, *settings]


def advise_full_run(verdicts: Sequence[Verdict]) -> Iterator[Advice]:
    """Yield the command that reads all samples, if a limit ended the user's pipeline."""
    for verdict in verdicts:
        if verdict.run is not None and verdict.run.ended_by in ("samples", "time"):
            action = f"run {escape(verdict.title, 200)} over all shards, to its own end"
            yield Advice(0, action, verdict.reader, verdict.title, runs_pipeline=True)


def _loses(verdict: Verdict) -> bool:
    return verdict.usable < verdict.samples or verdict.outcome == "crashes"


def _loses_by_samples(verdict: Verdict) -> bool:
    """Return whether the samples are the reason.

    Otherwise the training command itself is, and the advice is about its settings.
    """
    return bool(verdict.reasons) and verdict.reasons[0].slug != "forecast"


def _advise_reader(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield changes of the reader, in place of the shards, that bring it more samples."""
    if verdict.reader not in context.reader_names():
        # The user's own pipeline.
        return
    reader = context.reader_named(verdict.reader)
    if reader.takes_field_flags:
        yield from advise_flags(context, verdict, reader)
    if reader.takes_stages:
        yield from advise_caption_stages(context, verdict, reader)
    if reader.takes_field_map:
        yield from advise_field_map(context, verdict)
