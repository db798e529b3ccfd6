from collections import Counter
from collections.abc import Iterator

from wdsflow.scan.evidence import Part, Shape, ShapeCount
from wdsflow.shards.field_names import IMAGE_FIELDS
from wdsflow.text.words import how_many, listed

from ...finding import Finding, Severity
from ..kit.base import Context, Rule
from ..kit.shape_rule import loss


class MixedExtensions(Rule):
    """Images have several extensions.

    What: some samples have their image as jpg, others as png, jpeg or webp.

    Why it matters: OpenCLIP takes the first of the four that a sample has. Hugging Face datasets take their columns
    from the first five samples: an image with another extension is left out, and its row has None. DALI and other
    readers that need one name skip these samples or fail.

    In practice: downloads that keep the original extension (datasets#6880, #7055; Mobile-O#8).

    Fix: ``wdsflow repair URL... -o repaired --rename jpeg=jpg --rename png=jpg`` gives all images one name; Pillow
    goes by the bytes. img2dataset writes one format with ``--encode_format jpg``.
    """

    code = "F105"
    severity = "info"

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[str] = Counter()
        first: dict[str, tuple[str, ShapeCount]] = {}
        for shard in context.evidence.shards:
            for item in shard.runs.counted():
                name = _only_image(item.shape)
                if name:
                    counts[name] += item.count
                    first.setdefault(name, (shard.url, item))
        if len(counts) < 2:
            return
        common = counts.most_common(1)[0][0]
        rare = [name for name, _ in counts.most_common()[1:]]
        lost = self._lost(context, common, rare)
        url, place = first[rare[0]]
        severity: Severity = "info"
        if lost:
            severity = "error" if max(lost.values()) > context.max_loss * context.evidence.samples else "warning"
        told = f": for {context.titles(lost)}, {how_many(max(lost.values()), 'image')} fall out" if lost else ""
        yield Finding(
            code=self.code,
            severity=severity,
            message=f"images come as {listed(f'{name} ({counts[name]:,})' for name in (common, *rare))}{told}",
            shard=url,
            key=place.key,
            offset=place.offset,
            count=sum(counts[name] for name in rare),
            rate=1 - counts[common] / counts.total(),
            readers=tuple(lost),
        )

    def _lost(self, context: Context, common: str, rare: list[str]) -> dict[str, int]:
        """Return for each reader how many more samples it would use if all images had one name."""
        lost: dict[str, int] = {}
        for reader in context.readers:
            bound = context.bound(reader)
            if bound is reader:
                continue
            for target in (common, *rare):
                others = {name for name in (common, *rare) if name != target}

                def fixed_part(part: Part, target: str = target, others: set[str] = others) -> Part:
                    return Part(target, part.status) if part.suffix in others else part

                samples = sum(loss(context, bound, shard, fixed_part).samples for shard in context.evidence.shards)
                lost[reader.name] = max(lost.get(reader.name, 0), samples)
        return {name: count for name, count in lost.items() if count}


def _only_image(shape: Shape) -> str:
    names = [part.suffix.lower() for part in shape if part.suffix.lower() in IMAGE_FIELDS]
    return names[0] if len(names) == 1 else ""
