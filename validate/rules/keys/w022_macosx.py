from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class MacosxFolder(TallyRule):
    """The shard has a __MACOSX folder.

    What: members under ``__MACOSX/``, the resource forks that macOS writes into zip files.

    Why it matters: webdataset skips names of the form ``__name__``, but not ``__MACOSX``. Its members become separate
    samples, which OpenCLIP drops and other readers yield. Between the members of a sample, they split it.

    In practice: a zip file made in Finder, unpacked and packed again as tar on another machine.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing:
    ``tar --sort=name --format=ustar --exclude __MACOSX -cf SHARD -C FOLDER .``
    """

    code = "W022"
    severity = "warning"
    tallies = ("name.macosx",)
    counts_samples = False
    repair_note = "leaves the folder out"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'member is', 'members are')} under __MACOSX{first_seen(detail)}: readers make separate samples of them"
