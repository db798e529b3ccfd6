from dataclasses import replace

from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import BAD, EMPTY, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, first_seen
from ..kit.rule_commands import is_option, renamed, repair
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import RuleLoss


class BadField(LossRule):
    """A field other than image and caption does not decode.

    What: the decoder refuses a member other than image, caption and json: an ``.id`` or ``.cls`` that is not an
    integer, a damaged ``.npy``, ``.mp`` or ``.cbor``, a ``.gz`` that is not gzip.

    Why it matters: OpenCLIP 3.3 decodes every field of a sample by its extension. If one field fails, the sample is
    dropped, although image and caption are valid, with a warning that names neither key nor field. If all samples have
    such a field, none is left and training hangs. webdataset 1.x ends with an exception. For timm, ``cls`` is the label:
    samples whose label is not an integer are dropped.

    In practice: ``.id`` with a hexadecimal name, ``.index`` with text, empty side files (cosmos#3).

    Fix: rename the field to one that readers leave as bytes: ``wdsflow repair SHARD -o repaired --rename id=id_raw``,
    or leave it out: ``--drop-field id``. OpenCLIP 4 decodes only image and caption. Write the labels for timm again.
    """

    code = "F121"
    tallies = ("field.bad",)
    statuses = (BAD, EMPTY)
    kinds = ("integer", "npy", "npz", "msgpack", "cbor", "tenbin", "gz", "opaque")  # the others have rules of their own

    def seen(self, shard: ShardEvidence) -> Tally:
        """Count by shape, which shows gzipped fields too; otherwise by the tally."""
        tally = Tally()
        for item in shard.runs.counted():
            bad = [part.suffix for part in item.shape if part.status == BAD and kind_of(part.suffix) in self.kinds]
            if bad:
                tally.add(item.key, item.offset, bad[0], item.count * len(bad))
        return tally if tally.count else super().seen(shard)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "does" if count == 1 else "do"
        return f"{how_many(count, 'field')} other than image and caption {verb} not decode{first_seen(detail)}"

    def lossy(
        self, context: Context, shard: ShardEvidence, tally: Tally, losses: dict[str, RuleLoss], over: set[str]
    ) -> Finding:
        found = super().lossy(context, shard, tally, losses, over)
        name = tally.detail.lower()
        if any(name in reader.paired_fields() and reader.pairs_with == "label" for reader in context.readers):
            return replace(found, repair=None)  # the reader needs the field
        return found

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        name = tally.detail.lower()
        if not is_option(name):
            return None
        if name.endswith(".gz"):  # a repair would unpack it
            return repair([shard.url], "--drop-field", name, safe=False, note="leaves the field out")
        return repair([shard.url], "--rename", f"{name}={renamed(name)}", note="readers leave it as bytes then")
