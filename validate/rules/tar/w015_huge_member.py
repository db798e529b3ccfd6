from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class HugeMember(TallyRule):
    """A member is larger than 2 GiB.

    What: one file of more than 2 GiB inside the shard.

    Why it matters: readers load a member as a whole, and OpenCLIP's shuffle buffer holds up to 5,000 samples per
    worker: a few of these exhaust the worker's memory. Arrow cannot hold a value over 2 GiB, so Hugging Face datasets
    fail on it. USTAR, webdataset's own format, ends at 8 GiB.

    In practice: a nested archive, a video or a whole embedding table packed with the samples by mistake.

    Fix: take the file out of the folder before packing:
    ``tar --sort=name --format=ustar --exclude NAME -cf SHARD -C FOLDER .``
    """

    code = "W015"
    severity = "warning"
    tallies = ("tar.huge-member",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'member is', 'members are')} over 2 GiB{first_seen(detail)}: readers load it into memory as a whole"
