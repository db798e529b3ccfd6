from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class NotAsciiName(TallyRule):
    """Member names have non-ASCII characters.

    What: UTF-8 names with non-ASCII letters, such as ``Zürich.jpg``.

    Why it matters: Python readers pair them correctly. DALI reads no PAX headers, where such names
    are by Python's default, and has ``?`` for each letter: names may become alike. macOS and Linux may spell the
    same letter in two ways (composed or not); an image and its caption from two systems then do not pair. USTAR headers
    cannot hold such names without an extended header.

    In practice: file names taken from titles.

    Fix: nothing for OpenCLIP. When packing, number the samples and keep the title in the json:
    ``key = f"{index:09d}"``
    """

    code = "W033"
    severity = "info"
    tallies = ("name.not-ascii",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'name has', 'names have')} non-ASCII characters{first_seen(detail)}: plain USTAR cannot hold them, and DALI reads no PAX headers"
