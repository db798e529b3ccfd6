from collections import Counter

from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import BAD, EMPTY, Part, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.rule_commands import is_option, leave_out, renamed, repair
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import counted, mend_status


class BadJson(LossRule):
    """Json does not parse, or is not an object.

    What: a json member that Python's json refuses (cut, empty, not UTF-8, nested too deep), or one that holds a list, a
    number or a string instead of an object.

    Why it hurts: OpenCLIP 3.3 decodes every field of a sample, whether it needs it or not: a json that does not parse
    drops the sample although image and caption are fine, with a warning that names neither. webdataset 1.x ends
    there. OpenCLIP 4 reads json only with ``--json-text-key``, and then drops what has no caption.

    In the wild: json written by hand with single quotes, NaN for other parsers, files of no bytes from a writer that
    was killed (img2dataset#344).

    Cure: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; to keep them, write the json again
    with ``json.dumps``, or, where most of them are bad, take them out of the way: ``--rename json=json_raw``.
    """

    code = "F107"
    tallies = ("json.bad", "json.deep", "json.not-object")

    def mend(self, part: Part) -> Part:
        return _MEND(part)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        words = {"json.bad": "not parsing", "json.deep": "nested too deep", "json.not-object": "not an object"}
        told = [f"{text}: {shard.tally(name).count:,}" for name, text in words.items() if shard.tally(name).count]
        return f"{how_many(count, 'json field')} of no use ({', '.join(told)})"

    def cure(self, shard: ShardEvidence, tally: Tally) -> Repair:
        """Drop samples where few are at fault; where most are, keep them and put the field out of the way."""
        bad: Counter[str] = Counter()
        for item in counted(shard.runs):
            bad.update({part.suffix.lower(): item.count for part in item.shape if _MEND(part) != part})
        name, count = max(bad.items(), key=lambda pair: pair[1], default=("", 0))
        if count * 2 <= shard.samples or not is_option(name):
            return self.repair(shard.url)
        return repair([shard.url], "--rename", f"{name}={renamed(name)}", note="readers leave it as bytes then")

    def repair(self, *urls: str) -> Repair:
        return leave_out(urls)


_MEND = mend_status(BAD, EMPTY, when=lambda suffix: kind_of(suffix) == "json")
