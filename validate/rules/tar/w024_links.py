from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import repair


class Links(TallyRule):
    """Links are skipped.

    What: hard or symbolic links instead of files.

    Why it hurts: readers take regular files only. A caption or an image that is a link does not exist for them, and
    OpenCLIP drops the sample that lacks it without a word. tar writes a hard link by itself where two files share
    one inode: the second sample with the same image has none.

    In the wild: data sets made unique with ``hardlink`` or ``cp -al``, folders of symbolic links to a common store.

    Cure: ``wdsflow repair SHARD -o repaired`` puts in their place what they point to, if that is in the shard. When
    packing: ``tar --sort=name --format=ustar --dereference --hard-dereference -cf SHARD -C FOLDER .``
    """

    code = "W024"
    severity = "warning"
    tallies = ("tar.link",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'link')} instead of files{first_seen(detail)}: readers skip links"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="puts in their place what they point to, if that is in the shard")
