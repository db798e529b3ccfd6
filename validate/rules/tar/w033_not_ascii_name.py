from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class NotAsciiName(TallyRule):
    """Member names have characters outside of ASCII.

    What: UTF-8 names with letters beyond ASCII, such as ``Zürich.jpg``.

    Why it hurts: Python readers pair them correctly. DALI takes ASCII names only, macOS and Linux may spell the same
    letter in two ways (composed or not) so that an image and its caption from two systems do not pair, and USTAR
    headers cannot hold such names without an extended header.

    In the wild: file names taken from titles.

    Cure: nothing for OpenCLIP. When packing, number the samples and keep the title in the json:
    ``key = f"{index:09d}"``
    """

    code = "W033"
    severity = "info"
    tallies = ("name.not-ascii",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "has" if count == 1 else "have"
        return f"{how_many(count, 'name')} {verb} characters outside of ASCII{first_seen(detail)}: DALI and plain USTAR have no way to write them"
