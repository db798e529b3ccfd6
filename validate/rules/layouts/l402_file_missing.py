from ..kit.interleaved_rule import InterleavedRule


class FileMissing(InterleavedRule):
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
    tallies = ("interleaved.file-missing",)
    about_one = "does not have all files that the json lists"
    about_several = "do not have all files that the json lists"
