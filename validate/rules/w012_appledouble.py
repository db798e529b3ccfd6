from ..evidence import ShardEvidence
from ..finding import Repair
from .base import TallyRule, first_seen
from .commands import repair


class AppleDouble(TallyRule):
    """macOS twins or other dot-files lie between the members.

    What: ``folder/._a.jpg`` beside ``folder/a.jpg``, or ``folder/.DS_Store``: dot-files inside a folder. The key of
    such a member is the folder, ``folder/``, and its field ``_a.jpg``.

    Why it hurts: a foreign key between ``a.jpg`` and ``a.txt`` closes the sample. Every sample whose members have
    twins falls into halves, and OpenCLIP drops them all without a word: training waits for ever at epoch 0. At the
    top level (``._a.jpg``, ``./._a.jpg``) they are skipped and harmless (W023).

    In the wild: tar on macOS writes ``._`` twins for files with extended attributes, and Finder leaves .DS_Store.

    Cure: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing on macOS:
    ``COPYFILE_DISABLE=1 tar --no-mac-metadata --exclude .DS_Store -cf SHARD -C FOLDER .``
    """

    code = "W012"
    severity = "error"
    tallies = ("name.appledouble",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        noun = "dot-file lies" if count == 1 else "dot-files lie"
        return f"{count:,} {noun} between the members{first_seen(detail)}: each parts the samples around it"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="leaves out macOS twins and dot-files")
