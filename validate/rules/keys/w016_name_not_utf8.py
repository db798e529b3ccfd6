from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Severity
from ..kit.base import Context, TallyRule, first_seen


class NameNotUtf8(TallyRule):
    """Member names are not UTF-8.

    What: names in Latin-1, Shift-JIS or another 8-bit encoding.

    Why it matters: tarfile keeps the odd bytes as surrogates. OpenCLIP still pairs such members, but writing the key
    fails: UnicodeEncodeError in a log, in JSON, in Parquet, in an index. wids and other readers that decode names
    strictly end with an exception.

    In practice: names from old Windows or Mac archives, unpacked and packed again on Linux (webdataset#330, #428).

    Fix: ``wdsflow repair SHARD -o repaired`` replaces the odd bytes. To keep the letters, rename the files before
    packing: ``convmv -f latin1 -t utf8 -r --notest FOLDER``
    """

    code = "W016"
    severity = "warning"
    tallies = ("name.not-utf8", "name.junk-not-utf8")
    counts_samples = False
    repair_note = "replaces bytes that are not UTF-8"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'name is', 'names are')} not UTF-8{first_seen(detail)}: writing such a key fails"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        """Return "error" if a chosen reader ends with an exception."""
        crashes = [(reader.preparation([shard]) or reader).at_shard(shard) for reader in context.readers]
        ends = any(crash is not None and crash.reason in ("not-utf8-name", "no-index") for crash in crashes)
        return "error" if ends else self.severity
