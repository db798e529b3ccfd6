from ...finding import Repair
from ..kit.caption_rule import QualityRule
from ..kit.rule_commands import keep


class FilenameCaption(QualityRule):
    """Captions are file names.

    What: the whole caption is one word with an image extension, such as ``IMG_0042.JPG``.

    Why it matters: the sample looks complete, but the model learns that pictures are called IMG.

    In practice: alt texts filled in by cameras, scanners and content management systems.

    Fix: ``wdsflow filter SHARD -o filtered --where 'not is_filename_like'`` leaves them out, and
    also numbers and names without an extension, such as ``DSC_0042``.
    """

    code = "F116"
    unit = "caption"
    tallies = ("text.filename",)
    predicate = "look like file names"
    predicate_one = "looks like a file name"
    consequence = "a name says nothing about the picture"

    def repair(self, *urls: str) -> Repair | None:
        """Return the filter that leaves these captions out."""
        return keep(urls, "not is_filename_like", "leaves these samples out")
