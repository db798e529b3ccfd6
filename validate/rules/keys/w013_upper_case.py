from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Part, ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import Context, first_seen
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import RuleLoss, loss


class UpperCase(LossRule):
    """Field names have upper-case letters.

    What: ``A.JPG`` or ``a.Txt``. Distinct spellings are counted, not members.

    Why it matters: webdataset and OpenCLIP convert field names to lower case: ``JPG`` is ``jpg``. Hugging Face
    datasets, Ray Data and DALI do not: ``JPG`` is another column than ``jpg``, and is not decoded as an image. A set
    with both spellings has its images in two columns. Keys are case-sensitive for every reader: ``A.jpg`` and ``a.txt``
    never pair.

    In practice: photographs straight from cameras and from Windows; "KeyError: 'jpg'" in the datasets library for some
    of the shards (datasets#7732).

    Fix: ``wdsflow repair SHARD -o repaired`` writes field names in lower case.
    """

    code = "W013"
    tallies = ("name.upper",)
    counts_samples = False
    repair_note = "writes field names in lower case"

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence, count: int) -> RuleLoss:
        """Ask the reader both before and after it took its columns: their names may be in upper case."""
        return max(loss(context, each, shard, self.fixed_part) for each in (reader, context.bound(reader)))

    def fixed_part(self, part: Part) -> Part:
        return part if part.suffix.islower() else Part(part.suffix.lower(), part.status)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return (
            f"{how_many(count, 'field name')} with upper-case letters{first_seen(detail)}: "
            "a field of another name for Hugging Face datasets, Ray Data and DALI"
        )
