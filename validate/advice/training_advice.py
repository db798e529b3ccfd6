"""Settings with which the training command would run."""

from collections.abc import Iterator
from typing import Any

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import command

from ..finding import Advice
from ..forecast.forecast import Forecast
from ..rules.kit.base import Context
from .remedies import working_batch_size, working_workers
from .tried_settings import TriedSettings


def advise_training(context: Context) -> list[Advice]:
    """Return settings with which a command that stalls or never steps would run; the one that changes least first."""
    if context.arguments is None:
        return []
    tried = TriedSettings(context)
    found: list[Advice] = []
    for forecast in context.forecasts:
        for brings, regains, *flags in _settings(context, context.arguments, forecast) if forecast.applies else ():
            every = tried.complete(flags)
            if every is not None:
                does = f"train with {command(every)}: {brings}"
                found.append(Advice(regains, does, forecast.reader, flags=every))
    return found


def _settings(context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[tuple[Any, ...]]:
    """Yield what a setting brings, the samples that reach a batch, and the flag with its value."""
    reader = next(each for each in context.readers if each.name == forecast.reader)
    refused = forecast.crash_kind == "shards"
    if refused or (forecast.stalled and forecast.usable):
        usable = forecast.usable or next(each.usable for each in context.verdicts if each.reader == forecast.reader)
        workers = working_workers(context.evidence, reader, arguments)
        all_epochs = "every worker gets batches in all epochs that were checked"
        if workers is not None:
            yield all_epochs, usable, "--workers", str(workers)
        batch = working_batch_size(context.evidence, reader, arguments)
        if batch is not None:
            yield all_epochs, usable, "--batch-size", str(batch)
        if usable >= arguments.batch_size and not arguments.dataset_resampled:
            yield "every worker draws from all shards", usable, "--dataset-resampled"
    if forecast.length is not None and not forecast.steps and not forecast.stalled:
        yield "the optimizer steps", 0, "--accum-freq", str(forecast.length.batches)
