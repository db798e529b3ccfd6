from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import repair


class Interleaved(TallyRule):
    """The members of a sample are not next to each other.

    What: a key that was left comes back later in the same shard, as in ``0.jpg 1.jpg 0.txt 1.txt``.

    Why it hurts: readers walk a shard once and close a sample as soon as the key changes. Each part becomes a
    sample of its own: an image without a caption, a caption without an image. OpenCLIP's filter drops both without
    a word; if the whole set is like that, no sample is left and training hangs at epoch 0. webdataset and
    Ray Data hand out the halves.

    In the wild: tars made by ``tar cf shard.tar folder`` in the order of the directory, by ``find | tar -T -``, or
    by adding all images first and all captions after them (webdataset#407, #140, #11; ray#44068).

    Cure: ``wdsflow repair SHARD -o repaired`` brings the parts together. To pack anew:
    ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W006"
    severity = "error"
    requires = ("W012",)  # macOS twins between the members part them too
    tallies = ("key.again",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "comes" if count == 1 else "come"
        return f"{how_many(count, 'key')} {verb} back after other keys{first_seen(detail)}: readers make half samples"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="brings the members of each sample together")
