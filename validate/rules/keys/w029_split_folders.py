from itertools import combinations

from wdsflow.scan.evidence import ShapeCount, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen
from ..kit.shape_rule import fields_in

_MOST = 50  # shapes that share a base name; with more, the cause is something other than folders


class SplitFolders(TallyRule):
    """Images and captions are in different folders.

    What: ``images/a.jpg`` and ``captions/a.txt``: the same base name under two folders, with different fields.

    Why it matters: the folder is part of the key: ``images/a`` and ``captions/a`` are two samples, for every reader.
    OpenCLIP silently drops one for its missing caption and the other for its missing image: no sample is left, and
    training hangs.

    In practice: data sets with a folder for each kind of file, packed without change.

    Fix: ``wdsflow repair SHARD -o repaired`` joins the folders and regroups the members. When packing, put all files of
    a sample into one folder.
    """

    code = "W029"
    severity = "error"
    tallies = ()
    repair_note = "joins the folders"

    def seen(self, shard: ShardEvidence) -> Tally:
        """Look at the first key of each shape: if one base name is in two folders, so is the whole shape."""
        tally = Tally()
        folders: dict[str, list[ShapeCount]] = {}
        for item in shard.runs.counted():
            folders.setdefault(item.key.rpartition("/")[2], []).append(item)
        pairs = (pair for items in folders.values() if len(items) < _MOST for pair in combinations(items, 2))
        for one, other in pairs:
            apart = one.key != other.key and one.key.rpartition("/")[2]
            if apart and not fields_in(one.shape) & fields_in(other.shape):
                tally.add(one.key, one.offset, f"{one.key} and {other.key}", self._runs_like(shard, one, other))
                return tally
        return tally

    def _runs_like(self, shard: ShardEvidence, one: ShapeCount, other: ShapeCount) -> int:
        """Return how many runs have the same fields as the rarer of the two."""
        runs = list(shard.runs.counted())
        return min(
            sum(item.count for item in runs if fields_in(item.shape) == fields_in(half.shape)) for half in (one, other)
        )

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return (
            f"{how_many(count, 'sample has', 'samples have')} fields under different folders{first_seen(detail)}: "
            "the folder is part of the key, so they never pair"
        )
