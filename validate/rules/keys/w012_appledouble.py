from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.tar.member_names import is_junk
from wdsflow.text.words import how_many

from ...finding import Severity
from ..kit.base import Context, TallyRule, first_seen
from ..kit.shape_rule import crashes


class AppleDouble(TallyRule):
    """macOS twins or other dot-files are between the members.

    What: ``folder/._a.jpg`` next to ``folder/a.jpg``, or ``folder/.DS_Store``: dot-files inside a folder. The key of
    such a member is the folder, ``folder/``, and its field is ``_a.jpg``.

    Why it matters: a foreign key between ``a.jpg`` and ``a.txt`` closes the sample. Every sample whose members have
    twins is split, and OpenCLIP silently drops its parts: training hangs at epoch 0. At the top level (``._a.jpg``,
    ``./._a.jpg``) such files are skipped and harmless (W023). If they are between complete samples, or for Hugging Face
    datasets, which skip them, no sample is lost, and the finding is a warning.

    In practice: tar on macOS writes ``._`` twins for files with extended attributes, and Finder leaves .DS_Store.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing on macOS:
    ``COPYFILE_DISABLE=1 tar --no-mac-metadata --exclude .DS_Store -cf SHARD -C FOLDER .``
    """

    code = "W012"
    severity = "error"
    tallies = ("name.appledouble",)
    counts_samples = False
    repair_note = "leaves out macOS twins and dot-files"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        effect = "each splits the sample around it" if _parts(shard) else "they split no sample here"
        return f"{how_many(count, 'dot-file is', 'dot-files are')} between the members{first_seen(detail)}: {effect}"

    def hurts(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        """Return the readers that lose samples by such members or end with an exception."""
        return tuple(item.name for item in context.readers if _hurt(context, item, shard))

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        """Return a warning if every chosen reader gets complete samples."""
        return self.severity if self.hurts(context, shard) else "warning"


def _parts(shard: ShardEvidence) -> bool:
    return shard.tally("key.again").count > 0


def _hurt(context: Context, reader: Reader, shard: ShardEvidence) -> bool:
    if reader.visible_only:
        return False
    if reader.keys_once and shard.tally("key.again-twin").count:
        return True
    bound = context.bound(reader)
    junk = (item.shape for item in reader.runs(shard).counted() if is_junk(item.key))
    return _parts(shard) or any(crashes(context, bound, shape) for shape in junk)
