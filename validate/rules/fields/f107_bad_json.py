from collections import Counter

from wdsflow.scan.evidence import BAD, EMPTY, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.rule_commands import is_option, renamed, repair
from ..kit.rule_loss import LossRule


class BadJson(LossRule):
    """Json does not parse, or is not an object.

    What: Python's json refuses a json member (cut, empty, not UTF-8, nested too deep), or the member holds a list, a
    number or a string instead of an object.

    Why it matters: OpenCLIP 3.3 decodes every field of a sample, even if it does not need it. It drops a sample whose
    json does not parse, although image and caption are valid, with a warning that names neither key nor field.
    webdataset 1.x ends there. OpenCLIP 4 reads json only with ``--json-text-key``, and then drops samples without a
    caption.

    In practice: json written by hand with single quotes, NaN for other parsers, empty files from a writer that was
    killed (img2dataset#344).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out. To keep them, write the json again
    with ``json.dumps``. If most of them are bad, rename the field: ``--rename json=json_raw``.
    """

    code = "F107"
    tallies = ("json.bad", "json.deep", "json.not-object")
    statuses = (BAD, EMPTY)
    kinds = ("json",)
    drops_bad = True

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        words = {"json.bad": "not parsing", "json.deep": "nested too deep", "json.not-object": "not an object"}
        told = [f"{text}: {shard.tally(name).count:,}" for name, text in words.items() if shard.tally(name).count]
        return f"{how_many(count, 'json field')} of no use ({', '.join(told)})"

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        """Drop samples if few are at fault; if most are, keep them and rename the field."""
        bad: Counter[str] = Counter()
        for item in shard.runs.counted():
            bad.update({part.suffix.lower(): item.count for part in item.shape if self.fixed_part(part) != part})
        name, count = max(bad.items(), key=lambda pair: pair[1], default=("", 0))
        if count * 2 <= shard.samples or not is_option(name):
            return self.repair(shard.url)
        return repair([shard.url], "--rename", f"{name}={renamed(name)}", note="readers leave it as bytes then")
