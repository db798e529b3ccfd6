from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class HugeField(TallyRule):
    """A field is too large to be checked.

    What: a text member over 1 MiB, a json member over 16 MiB, or another field over 256 MiB. It was not decoded here;
    the verdict assumes that it is valid.

    Why it matters: readers load and decode it as a whole. A tokenizer processes the whole caption to keep 77 tokens,
    which can block a worker for minutes. It is most likely another file under a wrong name.

    In practice: a log or a whole table saved as .txt, base64 images inside json.

    Fix: look at it: ``tar --extract --to-stdout -f SHARD NAME | head --bytes 1000``, and leave it out when packing.
    """

    code = "F119"
    severity = "warning"
    tallies = ("text.huge", "json.huge", "field.huge")

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'field is', 'fields are')} too large to be checked{first_seen(detail)}: readers load all of it"
