"""Base of the rules about a training command. Without a command they report nothing."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import command

from ...advice.remedies import working_batch_size, working_workers
from ...finding import Finding, Repair, Severity
from ...forecast.forecast import Forecast
from .base import Context, Rule


class TrainingRule(Rule):
    """A rule about the training command and its effect on the shards."""

    @abstractmethod
    def look(self, context: Context, arguments: Arguments, forecast: Forecast) -> Iterable[Finding]:
        """Yield findings about one forecast."""

    def check(self, context: Context) -> Iterator[Finding]:
        """Check every forecast; the same finding for two versions of OpenCLIP becomes one."""
        if context.arguments is None:
            return
        found: dict[tuple[str, Severity], Finding] = {}
        for forecast in context.forecasts:
            if not forecast.applies:
                continue
            for each in self.look(context, context.arguments, forecast):
                known = found.get((each.message, each.severity))
                names = (*(known.readers if known else ()), forecast.reader)
                found[each.message, each.severity] = Finding(
                    each.code, each.severity, each.message, count=each.count, readers=names, repair=each.repair
                )
        yield from found.values()

    def finding(
        self, message: str, *, severity: Severity | None = None, count: int = 1, fix: Repair | None = None
    ) -> Finding:
        """Return a finding that concerns no single shard."""
        return Finding(self.code, severity or self.severity, message, count=count, repair=fix)


def flag(*flags: str, note: str = "") -> Repair:
    """Return a flag of the training command, with its value, as a repair; ``note`` continues the sentence."""
    words = command(flags)
    return Repair(words, note=f"train with {words}{note}", flags=flags)


def clips(context: Context) -> tuple[str, ...]:
    """Return the names of the chosen OpenCLIP versions."""
    return tuple(name for name in context.names() if name.startswith("open-clip"))


def sharing(context: Context, arguments: Arguments, forecast: Forecast) -> Repair | None:
    """Return the setting with which every worker gets batches; None if the set is smaller than one batch.

    Fewer workers train the same model. A much smaller batch would train another one: then sharing all shards is better.
    """
    reader = next(each for each in context.readers if each.name == forecast.reader)
    workers = working_workers(context.evidence, reader, arguments)
    if workers is not None:
        return flag("--workers", str(workers), note=", the most that works")
    batch = working_batch_size(context.evidence, reader, arguments)
    if batch is not None:
        return flag("--batch-size", str(batch), note=", the largest that works")
    usable = next(each.usable for each in context.verdicts if each.reader == forecast.reader)
    if usable < arguments.batch_size:
        return None
    return flag("--dataset-resampled", note=": every worker then draws from all shards")
