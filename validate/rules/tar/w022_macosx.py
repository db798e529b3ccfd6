from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import repair


class MacosxFolder(TallyRule):
    """A __MACOSX folder lies in the shard.

    What: members under ``__MACOSX/``, the resource forks that macOS writes into zip files.

    Why it hurts: webdataset skips names of the form ``__name__``, but not ``__MACOSX``. Its members become samples of
    their own, which OpenCLIP drops and other readers hand out. Where they lie between the members of a sample they
    part it.

    In the wild: a zip file made in Finder, unpacked and packed again as tar on another machine.

    Cure: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing:
    ``tar --sort=name --format=ustar --exclude __MACOSX -cf SHARD -C FOLDER .``
    """

    code = "W022"
    severity = "warning"
    tallies = ("name.macosx",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "lies" if count == 1 else "lie"
        return (
            f"{how_many(count, 'member')} {verb} under __MACOSX{first_seen(detail)}: which makes samples of their own"
        )

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="leaves the folder out")
