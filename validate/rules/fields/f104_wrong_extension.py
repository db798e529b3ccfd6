from ..kit.caption_rule import QualityRule


class WrongExtension(QualityRule):
    """Images have another format than their extension says.

    What: the first bytes are of another format than the extension, such as PNG data in ``a.jpg``.

    Why it matters: Pillow and DALI look at the bytes, so OpenCLIP, webdataset and Hugging Face datasets decode them.
    Readers that choose a decoder by name, or decode only JPEG (turbojpeg), fail on them. DALI decodes no GIF (W034).

    In practice: img2dataset with ``--disable_all_reencoding`` names every image jpg (img2dataset#344, #457); web
    servers that send WebP under a .jpg url.

    Fix: nothing for OpenCLIP. img2dataset re-encodes by default: leave ``--disable_all_reencoding`` out.
    """

    code = "F104"
    severity = "info"
    tallies = ("image.wrong-extension",)
    predicate = "are of another format than their extension says"
    predicate_one = "is of another format than its extension says"
    consequence = "Pillow and DALI go by the bytes, turbojpeg takes JPEG only"
