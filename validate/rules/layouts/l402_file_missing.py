from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class FileMissing(TallyRule):
    """A file that the json lists is not in the sample.

    What: the json of an interleaved sample lists files (``image`` or ``images`` next to ``conversations`` or
    ``messages``, ``image_name`` of MMC4), and one of them is not a member of the sample. Names are compared without
    folder, extension and case, with the full name of the member and with its field. The rule is silent in shards where
    no sample has any of its files: there the names say where the images came from.

    Why it matters: loaders look the file up by its name and raise KeyError, or skip the sample silently. Loaders that
    go by position put the next image in its place.

    In practice: failed downloads, images renamed after the json was written, documents cut in two by a limit on the
    size of a shard.

    Fix: pack the file, or remove it from the list together with its place in the text.
    ``wdsflow inspect SHARD --show KEY`` shows one sample with its json.
    """

    code = "L402"
    severity = "warning"
    requires = ("W001", "W002", "W006", "W010", "W012", "W022", "W029", "W030")  # each splits samples
    tallies = ("interleaved.file-missing",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "does" if count == 1 else "do"
        return f"{how_many(count, 'sample')} {verb} not have all files that the json lists{first_seen(detail)}"
