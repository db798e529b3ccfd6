from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule
from ..kit.shape_rule import counted, wanted


class TwoImages(Rule):
    """Samples have two fields of which only one is used.

    What: ``a.jpg`` and ``a.png`` in one sample, or two of the caption fields named with ``--text-key``.

    Why it hurts: OpenCLIP renames the first of ``jpg;png;jpeg;webp`` that is there to ``image`` and removes the others,
    without a word. If the png is the picture and the jpg its thumbnail or mask, the model sees the wrong one. Both
    are read and, in OpenCLIP 3.3, decoded.

    In the wild: an image beside its mask, depth map or low-resolution copy under the usual extension.

    Cure: give the second picture a name of its own: ``wdsflow repair URL... -o repaired --rename png=mask.png``.
    OpenCLIP 4 can choose: ``--image-key png``.
    """

    code = "F123"
    severity = "warning"
    requires = ("W010",)

    def check(self, context: Context) -> Iterator[Finding]:
        for role in ("image", "caption"):
            asked: dict[tuple[str, ...], list[str]] = {}
            for reader in context.readers:
                names = wanted(context, reader, role)
                if len(names) > 1:
                    asked.setdefault(names, []).append(reader.name)
            for names, hurt in asked.items():
                yield from self._double(context, names, hurt)

    def _double(self, context: Context, names: tuple[str, ...], hurt: list[str]) -> Iterator[Finding]:
        for shard in context.evidence.shards:
            count, place, pair = 0, None, ""
            for item in counted(shard.runs):
                fields = {part.suffix.lower() for part in item.shape}
                there = [name for name in names if name in fields]
                if len(there) > 1:
                    count += item.count
                    place = place or item
                    pair = pair or f"{' and '.join(there)}: only {there[0]} is used"
            if place is not None:
                of = f"{count:,} of {how_many(shard.samples, 'sample')}"
                yield Finding(
                    code=self.code,
                    severity=self.severity,
                    message=f"{of} {'has' if count == 1 else 'have'} both {escape(pair)}",
                    shard=shard.url,
                    key=place.key,
                    offset=place.offset,
                    count=count,
                    rate=min(count / shard.samples, 1.0) if shard.samples else None,
                    readers=tuple(hurt),
                )
