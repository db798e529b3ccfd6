from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import is_junk

from ...finding import Repair, Severity
from ..kit.base import Context, TallyRule, first_seen
from ..kit.rule_commands import repair
from ..kit.shape_rule import counted, crashes


class AppleDouble(TallyRule):
    """macOS twins or other dot-files lie between the members.

    What: ``folder/._a.jpg`` beside ``folder/a.jpg``, or ``folder/.DS_Store``: dot-files inside a folder. The key of
    such a member is the folder, ``folder/``, and its field ``_a.jpg``.

    Why it hurts: a foreign key between ``a.jpg`` and ``a.txt`` closes the sample. Every sample whose members have
    twins falls into halves, and OpenCLIP drops them all without a word: training hangs at epoch 0. At the
    top level (``._a.jpg``, ``./._a.jpg``) they are skipped and harmless (W023). Where they lie between whole samples,
    and for Hugging Face datasets, which skip them, no sample is lost: a warning then.

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
        effect = "each parts the samples around it" if _parts(shard) else "they part no sample here"
        return f"{count:,} {noun} between the members{first_seen(detail)}: {effect}"

    def hurts(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        """Return the readers that lose samples by them or end with an exception."""
        return tuple(item.name for item in context.readers if _hurt(context, item, shard))

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        """Return a warning where every reader asked for gets its samples whole."""
        return self.severity if self.hurts(context, shard) else "warning"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="leaves out macOS twins and dot-files")


def _parts(shard: ShardEvidence) -> bool:
    return shard.tally("key.again").count > 0


def _hurt(context: Context, reader: Reader, shard: ShardEvidence) -> bool:
    if reader.visible_only:
        return False
    bound = context.bound(reader)
    junk = (item.shape for item in counted(reader.runs(shard)) if is_junk(item.key))
    return _parts(shard) or any(crashes(context, bound, shape) for shape in junk)
