"""Settings of the training command with which it would run."""

from collections.abc import Iterator
from dataclasses import dataclass

from .forecast import Forecast
from .remedies import working_batch_size, working_workers
from .rules.base import Context
from .rules.training import forecasts


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, what it would bring, and how to make it."""

    regains: int  # samples that would reach a batch and do not now
    text: str  # one line, escaped already
    command: str = ""  # what to type: a command, a flag of the training command, or a line of code
    consumer: str = ""
    safe: bool = True  # no data is lost by it


def advise_training(context: Context) -> list[Advice]:
    """Return settings with which a command that stalls or never steps would run."""
    if context.arguments is None:
        return []
    return [advice for forecast in forecasts(context) if forecast.applies for advice in _settings(context, forecast)]


def _settings(context: Context, forecast: Forecast) -> Iterator[Advice]:
    arguments = context.arguments
    consumer = next(each for each in context.consumers if each.name == forecast.consumer)
    refused = forecast.crash is not None and "number of shards must be" in forecast.crash
    if refused or (forecast.stalled and forecast.usable):
        usable = forecast.usable or next(each.usable for each in context.verdicts if each.consumer == forecast.consumer)
        workers = working_workers(context.evidence, consumer, arguments)
        if workers is not None:
            text = f"with --workers {workers} every worker gets batches in all epochs that were checked"
            yield Advice(usable, text, f"--workers {workers}", forecast.consumer)
        batch = working_batch_size(context.evidence, consumer, arguments)
        if batch is not None:
            text = f"with --batch-size {batch} every worker gets batches in all epochs that were checked"
            yield Advice(usable, text, f"--batch-size {batch}", forecast.consumer)
        if usable and not arguments.dataset_resampled:
            text = "with --dataset-resampled every worker draws from all shards, so that none starves"
            yield Advice(usable, text, "--dataset-resampled", forecast.consumer)
    if forecast.length is not None and not forecast.steps and not forecast.stalled:
        most = forecast.length.batches
        yield Advice(
            0, f"with --accum-freq {most} or less the optimizer steps", f"--accum-freq {most}", forecast.consumer
        )
