from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule
from ..kit.shape_rule import fields_in, wanted


class TwoImages(Rule):
    """Samples have two fields, and only one is used.

    What: ``a.jpg`` and ``a.png`` in one sample, or two of the caption fields named with ``--text-key``.

    Why it matters: OpenCLIP renames the first of ``jpg;png;jpeg;webp`` that a sample has to ``image``, and silently
    removes the others. If the png is the picture and the jpg its thumbnail or mask, the model sees the wrong one. Both
    are read, and OpenCLIP 3.3 decodes both.

    In practice: an image with its mask, depth map or low-resolution copy, each with a usual extension.

    Fix: give the second picture another name: ``wdsflow repair URL... -o repaired --rename png=mask.png``. OpenCLIP 4
    can choose: ``--image-key png``.
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
            for item in shard.runs.counted():
                fields = fields_in(item.shape)
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
