"""Base of the rules about a training command. Without a command they report nothing."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.text.shell import command

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
