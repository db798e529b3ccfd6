from ..kit.caption_rule import QualityRule


class DamagedImage(QualityRule):
    """Image data are damaged, and readers do not notice.

    What: a strict decoder finds errors in the compressed data that Pillow passes over. Seen at ``--level full`` only.

    Why it hurts: the picture decodes, with a grey or shifted part from the damage on, and is trained as it is. Damage
    in bytes hints at a bad disk, memory or transfer: other files will have it where nothing can see it.

    In the wild: pictures whose lower half is grey or in wrong colours; a log full of "Corrupt JPEG data: premature
    end of data segment".

    Cure: fetch the shard again and compare: ``sha256sum SHARD``
    """

    code = "I218"
    tallies = ("image.damaged",)
    predicate = "are damaged but decode"
    predicate_one = "is damaged but decodes"
    consequence = "a part of the picture is grey or shifted"
    common = 0.001
