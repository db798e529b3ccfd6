"""Settings with which the training command would run."""

from collections.abc import Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import command

from ..finding import Advice
from ..forecast.forecast import Forecast
from ..rules.kit.base import Context
from .remedies import working_batch_size, working_workers


def advise_training(context: Context) -> list[Advice]:
    """Return settings with which a command that stalls or never steps would run."""
    if context.arguments is None:
        return []
    return [
        advice
        for forecast in context.forecasts
        if forecast.applies
        for advice in _settings(context, context.arguments, forecast)
    ]


def _settings(context: Context, arguments: Arguments, forecast: Forecast) -> Iterator[Advice]:
    reader = next(each for each in context.readers if each.name == forecast.reader)
    refused = forecast.crash_kind == "shards"
    if refused or (forecast.stalled and forecast.usable):
        usable = forecast.usable or next(each.usable for each in context.verdicts if each.reader == forecast.reader)
        workers = working_workers(context.evidence, reader, arguments)
        all_epochs = "every worker gets batches in all epochs that were checked"
        if workers is not None:
            yield _advice(forecast, usable, all_epochs, "--workers", str(workers))
        batch = working_batch_size(context.evidence, reader, arguments)
        if batch is not None:
            yield _advice(forecast, usable, all_epochs, "--batch-size", str(batch))
        if usable and not arguments.dataset_resampled:
            yield _advice(forecast, usable, "every worker draws from all shards", "--dataset-resampled")
    if forecast.length is not None and not forecast.steps and not forecast.stalled:
        yield _advice(forecast, 0, "the optimizer steps", "--accum-freq", str(forecast.length.batches))


def _advice(forecast: Forecast, regains: int, brings: str, *flags: str) -> Advice:
    return Advice(regains, f"train with {command(flags)}: {brings}", forecast.reader, flags=flags)
