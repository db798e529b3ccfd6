from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import is_option, repair


class UnsafeField(TallyRule):
    """Pickled fields run code when they are read.

    What: members named .pickle, .pkl, .pyd or .pth. Reading a pickle executes the code that its author put in. wdsflow
    never opens them.

    Why it matters: webdataset's ``decode`` unpickles such fields by itself, and OpenCLIP 3.3 decodes every field of a
    sample, even if it does not need it. Whoever made the shard can run programs on every training machine. Older
    versions of Ray Data and Hugging Face datasets did the same.

    In practice: embeddings stored by ``torch.save`` next to images; metadata as pickle out of habit.

    Fix: ``wdsflow repair SHARD -o repaired --drop-field pickle`` leaves the field out. When packing, store arrays as
    .npy and metadata as .json. webdataset 1.x refuses pickles with ``WDS_SECURE=1``.
    """

    code = "F111"
    severity = "error"
    tallies = ("field.unsafe",)

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        names = sorted(name for name in shard.fields if kind_of(name) in ("pickle", "torch"))
        options = [word for name in names or [tally.detail.lower()] for word in ("--drop-field", name)]
        if not all(is_option(name) for name in options[1::2]):
            return None
        return repair([shard.url], *options, safe=False, note="leaves the pickled fields out")

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return (
            f"{how_many(count, 'field is', 'fields are')} pickled{first_seen(detail)}: decoding runs its author's code"
        )
