from ..evidence import ShardEvidence
from .base import TallyRule, first_seen, number


class SplitFolders(TallyRule):
    """Images and captions lie in different folders.

    What: ``images/a.jpg`` and ``captions/a.txt``: the same base name under two folders, with different fields.

    Why it hurts: the folder is part of the key, so that ``images/a`` and ``captions/a`` are two samples, for every
    reader. OpenCLIP drops the one for its missing caption and the other for its missing image, without a word: no
    sample is left, and training waits for ever.

    In the wild: data sets with a folder for each kind of file, packed as they lie.

    Cure: move the files of one sample side by side before packing:
    ``tar --sort=name --format=ustar --transform 's,.*/,,' -cf SHARD -C FOLDER .``, then
    ``wdsflow repair SHARD -o repaired`` to bring the parts together
    """

    code = "W029"
    severity = "error"
    tallies = ("key.split-folders",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "has" if count == 1 else "have"
        return (
            f"{number(count, 'sample')} {verb} fields under different folders{first_seen(detail)}: "
            "the folder is part of the key, so they never pair"
        )
