from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class ControlInName(TallyRule):
    """Member names have control characters.

    What: newlines, escape sequences or other control characters in file names.

    Why it matters: readers pair such members like any others; only wids ends with an exception at a line break. Lists
    with one name per line break, terminals obey escape sequences (colours, window titles, hidden text), and shell
    scripts split the names. wdsflow shows them escaped and never uses them as paths.

    In practice: file names taken from page titles or captions, or chosen for an attack.

    Fix: ``wdsflow repair SHARD -o repaired`` replaces them. When packing, use characters that are safe everywhere:
    ``key = re.sub(r"[^A-Za-z0-9_-]", "_", key)``
    """

    code = "W028"
    severity = "warning"
    tallies = ("name.control",)
    counts_samples = False
    repair_note = "replaces control characters"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'name has', 'names have')} control characters{first_seen(detail)}: unsafe in lists and terminals"
