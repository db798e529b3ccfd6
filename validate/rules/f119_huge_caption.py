from ..evidence import ShardEvidence
from .base import TallyRule, first_seen, number


class HugeCaption(TallyRule):
    """A caption or json is too large to be one.

    What: a text member over 1 MiB or a json member over 16 MiB. It was not read further.

    Why it hurts: readers load and decode it as a whole; the tokenizer works through all of it to keep 77 tokens, which can
    hold up a worker for minutes. It is most likely another file under a wrong name.

    In the wild: a log or a whole table saved as .txt, base64 images inside json.

    Cure: look at it: ``tar --extract --to-stdout -f SHARD NAME | head --bytes 1000``, and leave it out when packing.
    """

    code = "F119"
    severity = "warning"
    tallies = ("text.huge", "json.huge")

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{number(count, 'caption or json field')} of over 1 MiB{first_seen(detail)}: not read further"
