from ..kit.caption_rule import QualityRule


class DamagedImage(QualityRule):
    """Image data are damaged, and readers do not notice.

    What: a strict decoder finds errors in the compressed data that Pillow ignores. Found only at ``--level full``.

    Why it matters: the picture decodes, with a grey or shifted part after the damage, and is trained like that. Damaged
    bytes suggest a bad disk, memory or transfer: other files are probably damaged too, undetected.

    In practice: pictures whose lower half is grey or in wrong colours; a log full of "Corrupt JPEG data: premature
    end of data segment".

    Fix: fetch the shard again and compare: ``sha256sum SHARD``
    """

    code = "I218"
    tallies = ("image.damaged",)
    predicate = "are damaged but decode"
    predicate_one = "is damaged but decodes"
    consequence = "a part of the picture is grey or shifted"
    common = 0.001
