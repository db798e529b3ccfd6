from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class Links(TallyRule):
    """Links are skipped.

    What: hard or symbolic links instead of files.

    Why it matters: readers take only regular files. A caption or an image that is a link does not exist for them, and
    OpenCLIP silently drops the sample. tar itself writes a hard link if two files share one inode: the second sample
    with the same image has none.

    In practice: data sets deduplicated with ``hardlink`` or ``cp -al``, folders of symbolic links to a common store.

    Fix: ``wdsflow repair SHARD -o repaired`` replaces them with their targets, if these are in the shard. When packing:
    ``tar --sort=name --format=ustar --dereference --hard-dereference -cf SHARD -C FOLDER .``
    """

    code = "W024"
    severity = "warning"
    tallies = ("tar.link",)
    counts_samples = False
    repair_note = "replaces them with their targets, if these are in the shard"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'link')} instead of files{first_seen(detail)}: readers skip links"
