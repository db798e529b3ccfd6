from collections.abc import Iterator

from wdsflow.scan.layouts import layout_of
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule
from ..kit.layout_text import reads_pairs

_PAIRS = ("open-clip", "wdsflow-train", "timm", "energon")  # the others give all fields of a sample


class NotImageText(Rule):
    """The reader trains on samples that are not image-text pairs.

    What: most samples have several images, an interleaved document or conversation, a video or audio, and the reader
    takes one image and one caption of each: OpenCLIP, and the feed of ``wdsflow train``.

    Why it matters: training runs, but not on what the samples say. Of several images only one is used, of a
    conversation or document only what the caption field holds; video and audio are read and thrown away.

    In practice: instruction data of a vision-language model used to continue CLIP training; video shards with a
    thumbnail and a title next to each clip.

    Fix: nothing if one image and its caption are what you want. Otherwise use the loader that the data were made for;
    ``wdsflow validate URL... --pipeline train.py:make`` judges for it. ``wdsflow train`` feeds image-text pairs only.
    """

    code = "L406"
    severity = "warning"
    requires = ("F101", "F123")  # these say the same of sets that do not train, or lose an image

    def check(self, context: Context) -> Iterator[Finding]:
        layout = layout_of(context.evidence.shards)
        if layout.is_image_text:
            return
        usable = {verdict.reader for verdict in context.verdicts if verdict.usable}
        hurt = [each.name for each in context.readers if each.name in usable and each.name.startswith(_PAIRS)]
        if hurt:
            title = context.titles(hurt)
            samples = context.evidence.samples
            yield Finding(
                code=self.code,
                severity=self.severity,
                message=f"{how_many(samples, 'sample')}: {layout.text()}; {reads_pairs(title, len(hurt))}",
                count=samples,
                readers=tuple(hurt),
            )
