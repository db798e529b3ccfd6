from collections.abc import Iterator

from wdsflow.readers.sidecar_facts import SidecarFact

from ...finding import Finding, Severity
from ..kit.base import Context, Rule


class WrongSidecar(Rule):
    """A file next to the shards, with their number of samples or an index, is wrong.

    What: ``sizes.json``, ``__len__``, ``NNNNN_stats.json``, or an index of wids, timm (``_info.json``), Energon (``.nv-meta``,
    ``.tar.idx``), DALI (``.idx``) or webshart (``NAME.json``) does not parse, does not list all shards, or has other
    counts, sizes or places than the shards.

    Why it matters: without ``--train-num-samples`` OpenCLIP takes the length of an epoch, and from it the learning-rate
    schedule, from sizes.json or ``__len__`` next to the *first* shard. If a shard is not listed, OpenCLIP ends with a
    KeyError; if the file is broken, with a JSONDecodeError. Stale counts make every epoch too long or too short. wids
    refuses to read a shard whose count is wrong. With an index whose places are wrong, DALI and Energon read bytes from the
    middle of other members.

    In practice: shards filtered or copied without their sizes.json; ``--train-num-samples`` pasted from another set
    (open_clip#1016, #899); open_flamingo#206; two folders with equal base names, of which OpenCLIP counts the first
    twice.

    Fix: write the files again: ``wdsflow index URL... --sizes --len --force``, with an option for each kind of file. Or delete
    them and give ``--train-num-samples``.
    """

    code = "P305"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
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
