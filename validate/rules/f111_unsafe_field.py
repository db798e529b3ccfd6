from ..evidence import ShardEvidence
from .base import TallyRule, first_seen, number


class UnsafeField(TallyRule):
    """Pickled fields run code when they are read.

    What: members named .pickle, .pkl, .pyd or .pth. Reading a pickle executes whatever its author put in. wdsflow never
    opens them.

    Why it hurts: webdataset's ``decode`` unpickles such fields by itself, and OpenCLIP 3.3 decodes every field of a
    sample, whether it needs it or not: whoever made the shard can run programs on every training machine. Ray Data
    refuses them from 2.60 on, older versions unpickle. Hugging Face datasets leave them as bytes.

    In the wild: embeddings stored by ``torch.save`` beside images; metadata as pickle out of habit.

    Cure: leave the field out, or store arrays as .npy and metadata as .json:
    ``tar --sort=name --format=ustar --exclude '*.pickle' --exclude '*.pkl' --exclude '*.pyd' --exclude '*.pth' -cf SHARD
    -C FOLDER .``. With webdataset 1.x, ``WDS_SECURE=1`` refuses them.
    """

    code = "F111"
    severity = "error"
    tallies = ("field.unsafe",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "is" if count == 1 else "are"
        return f"{number(count, 'field')} {verb} pickled{first_seen(detail)}: decoding one runs code of its author's choice"
