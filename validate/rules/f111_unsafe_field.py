from ..evidence import ShardEvidence
from .base import TallyRule, first_seen, number


class UnsafeField(TallyRule):
    """Pickled fields run code when they are read.

    What: members named .pickle, .pkl, .pyd or .pth. Reading a pickle executes whatever its author put in. wdsflow never
    opens them.

    Why it hurts: webdataset's ``decode`` unpickles such fields by itself, and OpenCLIP 3.3 decodes every field of a
    sample, whether it needs it or not: whoever made the shard can run programs on every training machine. Older
    versions of Ray Data and Hugging Face datasets did the same.

    In the wild: embeddings stored by ``torch.save`` beside images; metadata as pickle out of habit.

    Cure: leave the field out, or store arrays as .npy and metadata as .json:
    ``tar --sort=name --format=ustar --exclude '*.pickle' --exclude '*.pkl' -cf SHARD -C FOLDER .``. webdataset 1.x
    refuses them with ``WDS_SECURE=1``.
    """

    code = "F111"
    severity = "error"
    tallies = ("field.unsafe",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "is" if count == 1 else "are"
        return f"{number(count, 'field')} {verb} pickled{first_seen(detail)}: decoding one runs code of its author's choice"
