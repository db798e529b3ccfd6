from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class Interleaved(TallyRule):
    """The members of a sample are not next to each other.

    What: a key occurs again after other keys in the same shard, as in ``0.jpg 1.jpg 0.txt 1.txt``.

    Why it matters: readers walk a shard once and close a sample as soon as the key changes. Each part becomes a
    separate sample: an image without a caption, a caption without an image. OpenCLIP's filter silently drops both; if
    the whole set is like that, no sample is left and training hangs at epoch 0. webdataset and Ray Data yield the
    parts.

    In practice: tars made by ``tar cf shard.tar folder`` in the order of the directory, by ``find | tar -T -``, or
    by adding all images first and all captions after them (webdataset#407, #140, #11; ray#44068).

    Fix: ``wdsflow repair SHARD -o repaired`` regroups the members. To pack again: ``tar --sort=name --format=ustar -cf
    SHARD -C FOLDER .``
    """

    code = "W006"
    severity = "error"
    requires = ("W012",)  # macOS twins between the members split them too
    tallies = ("key.again",)
    repair_note = "regroups the members of each sample"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'key comes', 'keys come')} back after other keys{first_seen(detail)}: readers split the samples"
