from ..kit.caption_rule import QualityRule


class FilenameCaption(QualityRule):
    r"""Captions are file names.

    What: the whole caption is one word with an image extension, such as ``IMG_0042.JPG``.

    Why it matters: the sample looks complete, but the model learns that pictures are called IMG.

    In practice: alt texts filled in by cameras, scanners and content management systems.

    Fix: leave them out before packing:
    ``if re.fullmatch(r"\S+\.(jpe?g|png|gif|webp)", text, re.I): continue``
    """

    code = "F116"
    unit = "caption"
    tallies = ("text.filename",)
    predicate = "look like file names"
    predicate_one = "looks like a file name"
    consequence = "a name says nothing about the picture"
