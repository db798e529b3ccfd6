from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class NoField(TallyRule):
    """Members without an extension are skipped.

    What: the base name has no dot, and therefore no field name.

    Why it matters: webdataset, OpenCLIP, Hugging Face datasets and Ray Data silently skip such members; for DALI,
    each is a sample of its own (W034). This is harmless for a stray ``LICENSE``. If captions or images are stored this
    way, they do not exist for any reader, and every sample lacks them.

    In practice: ``README``, ``nshards`` and ``Makefile`` in tars of whole folders; downloads saved under a hash without
    an extension (webdataset "No samples found in dataset; perhaps you have fewer shards than workers").

    Fix: give the files their extensions before packing:
    ``for f in FOLDER/*; do mv "$f" "$f.$(file --brief --extension "$f" | cut -d/ -f1)"; done``
    """

    code = "W011"
    severity = "warning"
    tallies = ("name.no-field",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'member has', 'members have')} no extension{first_seen(detail)}: and readers skip {'it' if count == 1 else 'them'}"
