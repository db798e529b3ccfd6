from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import is_option, repair


class GzippedField(TallyRule):
    """Fields are gzipped one by one.

    What: members such as ``a.txt.gz`` or ``a.json.gz``.

    Why it matters: webdataset unpacks and decodes them, but the field keeps its name ``txt.gz``, and OpenCLIP needs
    ``txt``: its filter finds no caption, and silently drops the sample. gzip makes short texts larger.

    In practice: exports that always compress text; samples with ``.cls.gz``.

    Fix: ``wdsflow repair SHARD -o repaired --rename txt.gz=txt`` unpacks and renames them.
    """

    code = "F120"
    severity = "warning"
    tallies = ()

    def seen(self, shard: ShardEvidence) -> Tally:
        """Count by shape: the field's name shows it at every level."""
        tally = Tally()
        for item in shard.runs.counted():
            packed = [part.suffix for part in item.shape if part.suffix.lower().endswith(".gz")]
            if packed:
                tally.add(item.key, item.offset, packed[0], item.count * len(packed))
        return tally

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'field is', 'fields are')} gzipped{first_seen(detail)}: readers keep .gz in the field name"

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        name = tally.detail.lower()
        if not is_option(name) or name == "gz":
            return None
        return repair([shard.url], "--rename", f"{name}={name.removesuffix('.gz')}", note="unpacks the fields")
