from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class HiddenFiles(TallyRule):
    """Dot-files at the top level are skipped.

    What: names such as ``.DS_Store``, ``._a.jpg`` or ``./._a.jpg`` that begin with a dot and are in no folder.

    Why it matters: they have no key, and readers silently skip them; only DALI takes one for an empty sample, if it comes
    first (W034). That is right for files that an operating system left behind. If samples have such names, they do not
    exist for any reader. Inside a folder, dot-files do harm (W012).

    In practice: tars made in Finder or of a home directory.

    Fix: none is needed. To leave them out when packing: ``tar --sort=name --format=ustar --exclude '.[!.]*' -cf SHARD
    -C FOLDER .``
    """

    code = "W023"
    severity = "info"
    tallies = ("name.hidden",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'dot-file is', 'dot-files are')} skipped by readers{first_seen(detail)}"
