from collections.abc import Iterator

from wdsflow.readers.open_clip.sidecars import SidecarFact, Sidecars

from ...finding import Finding, Severity
from ..kit.base import Context, Rule


class WrongSidecar(Rule):
    """A file with the number of samples is wrong.

    What: ``sizes.json``, ``__len__``, ``NNNNN_stats.json`` or a wids index next to the shards does not parse, does not
    list all shards, or gives other counts than the shards have.

    Why it matters: without ``--train-num-samples`` OpenCLIP takes the length of an epoch, and from it the learning-rate
    schedule, from sizes.json or ``__len__`` next to the *first* shard. If a shard is not listed, OpenCLIP ends with a
    KeyError; if the file is broken, with a JSONDecodeError. Stale counts make every epoch too long or too short. wids
    refuses to read a shard whose count is wrong.

    In practice: shards filtered or copied without their sizes.json; ``--train-num-samples`` pasted from another set
    (open_clip#1016, #899); open_flamingo#206; two folders with equal base names, of which OpenCLIP counts the first
    twice.

    Fix: write the files again: ``wdsflow repair URL... -o repaired`` writes correct ones next to its output. Or delete
    them and give ``--train-num-samples``.
    """

    code = "P305"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        if not isinstance(context.sidecars, Sidecars):
            return
        ended = any(forecast.crash_kind == "samples" for forecast in context.forecasts)
        for fact in context.sidecars.facts:
            yield Finding(
                self.code,
                self.severity_of(fact, ended),
                f"{fact.path} {_WORDS[fact.problem]}{fact.detail}",
                count=fact.shards,
                readers=tuple(name for name in context.names() if name.startswith("open-clip")),
            )

    def severity_of(self, fact: SidecarFact, ended: bool) -> Severity:
        """Return "error" if OpenCLIP ends because of this file."""
        read = fact.path.endswith(("sizes.json", "__len__"))
        return "error" if ended and read and fact.problem != "stale" else self.severity


_WORDS = {"missing": "", "malformed": "cannot be read: ", "stale": "does not agree with the shards: "}
