from collections.abc import Iterator

from wdsflow.shards.escape import escape

from ..consumers.base import Consumer
from ..evidence import Runs, Shape
from ..finding import Finding
from .base import Context, Rule

_LOOKED_AT = 5


class HubViewer(Rule):
    """The first five samples do not have the same fields.

    What: Hugging Face datasets, and with them the viewer of the Hub, read the first five samples of the first shard and
    want the same set of fields in each.

    Why it hurts: otherwise loading ends at once: "The TAR archives of the dataset should be in WebDataset format, but
    the files in the archive don't share the same prefix or the same types." OpenCLIP does not mind.

    In the wild: the data set page on the Hub shows an error instead of pictures (datasets#6880, #7144).

    Cure: let all samples have the same fields; an optional field must be absent in all of the first five, or present.
    ``wdsflow inspect SHARD`` shows the fields in the order of the shard.
    """

    code = "F110"
    severity = "info"
    requires = ("F102", "F103", "F105", "W006", "W010", "W012")

    def check(self, context: Context) -> Iterator[Finding]:
        if not context.evidence.shards:
            return
        shard = context.evidence.shards[0]
        runs = shard.visible_runs or shard.runs
        if runs.head is None:
            return
        usual = _fields(runs.head.shape)
        hurt = [consumer.name for consumer in context.consumers if _refuses(context, consumer)]
        for shape, key, offset in _early(runs):
            if _fields(shape) != usual:
                fields = escape(", ".join(sorted(_fields(shape))), 80)
                yield Finding(
                    code=self.code,
                    severity="error" if hurt else self.severity,
                    message=f"the first samples differ in fields ({escape(', '.join(sorted(usual)), 80)}; then {fields}): "
                    "the viewer of the Hugging Face Hub refuses the set",
                    shard=shard.url,
                    key=key,
                    offset=offset,
                    consumers=tuple(hurt),
                )
                return


def _refuses(context: Context, consumer: Consumer) -> bool:
    crash = consumer.at_start(context.evidence.shards)
    return crash is not None and crash.reason == "schema"


def _early(runs: Runs) -> Iterator[tuple[Shape, str, int]]:
    """Yield each shape that is first met among the first five runs, behind the first."""
    for item in runs.inner:
        if 1 + sum(item.before) < _LOOKED_AT:
            yield item.shape, item.key, item.offset
    if runs.tail is not None and 1 + sum(item.count for item in runs.inner) < _LOOKED_AT:
        yield runs.tail.shape, runs.tail.key, runs.tail.offset


def _fields(shape: Shape) -> frozenset[str]:
    return frozenset(part.suffix for part in shape)
