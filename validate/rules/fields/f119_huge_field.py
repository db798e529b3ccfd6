from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class HugeField(TallyRule):
    """A field is too large to be looked into.

    What: a text member over 1 MiB, a json member over 16 MiB, or another field over 256 MiB. It was not decoded here,
    so that the verdict assumes it to be sound.

    Why it hurts: readers load and decode it as a whole; a tokenizer works through all of a caption to keep 77 tokens,
    which can hold up a worker for minutes. It is most likely another file under a wrong name.

    In the wild: a log or a whole table saved as .txt, base64 images inside json.

    Cure: look at it: ``tar --extract --to-stdout -f SHARD NAME | head --bytes 1000``, and leave it out when packing.
    """

    code = "F119"
    severity = "warning"
    tallies = ("text.huge", "json.huge", "field.huge")

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "is" if count == 1 else "are"
        return (
            f"{how_many(count, 'field')} {verb} too large to be looked into{first_seen(detail)}: readers load all of it"
        )
