"""Rules about the training command, and flags of it as repairs."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import command

from ...finding import Finding, Repair, Severity
from ...forecast.forecast_result import Forecast
from .base import Context, Rule


class TrainingRule(Rule):
    """A rule about the training command and its effect on the shards."""

    @abstractmethod
    def check_forecast(
        self, context: Context, arguments: Arguments, forecast: Forecast
    ) -> Iterable[Finding]:
        """Yield findings about one forecast; ``check`` adds its reader."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Check every forecast; the same finding for two versions of OpenCLIP becomes one."""
        if context.arguments is None:
            return
        findings: dict[tuple[str, Severity], Finding] = {}
        for forecast in context.forecasts:
            if not forecast.applies:
                continue
            for finding in self.check_forecast(context, context.arguments, forecast):
                readers: tuple[str, ...] = (forecast.reader,)
                same = findings.get((finding.message, finding.severity))
                if same is not None:
                    readers = (*same.readers, forecast.reader)
                findings[finding.message, finding.severity] = replace(finding, readers=readers)
        yield from findings.values()


def flag_repair(*flags: str, note: str = "") -> Repair:
    """Return a flag of the training command, with its value, as a repair.

    ``note`` continues the sentence.
    """
    words = command(flags)
    return Repair(words, note=f"train with {words}{note}", flags=flags)


def openclip_names(context: Context) -> tuple[str, ...]:
    """Return the names of the chosen OpenCLIP versions."""
    return tuple(reader.name for reader in context.readers if reader.runs_training_command)
