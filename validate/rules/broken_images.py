"""Images that cannot be decoded, or that exceed limits."""

from collections import Counter
from collections.abc import Iterator

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.statuses import BAD, BIG, BIG_BAD, BOMB, CUT, EMPTY, MARKUP, NOT_IMAGE

from ..finding import Finding
from .kit.base import Context, Rule, TallyRule
from .kit.quality_rules import QualityRule
from .kit.sample_loss_rules import ImageLossRule

# 2^22 = 4.2 megapixels.
_LARGE = 22
_MODEL_PIXELS = 224 * 224


class Undecodable(ImageLossRule):
    """Pillow cannot decode the image.

    What: the data begin like an image, but Pillow raises an error while decoding it. At
    ``--level headers`` only images in rare formats, and those that seem to be cut, are decoded.
    I216, I202, I210 and I217 report images that are empty, cut, or not images at all. EPS is never
    decoded here, since Pillow hands it to Ghostscript, a program.

    Why it matters: OpenCLIP logs one warning without a name and drops the sample, in each epoch
    again. webdataset 1.x, Hugging Face datasets and Ray Data end with an exception.

    In practice: "Handling webdataset error (UnidentifiedImageError(...)). Ignoring." without a key
    (kraken#299 asks for the file name); formats for which this Pillow has no decoder (AVIF, HEIC).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them
    again.
    """

    code = "I201"
    statuses = (BAD, BIG_BAD)
    tallies = ("image.undecodable",)
    says = "{n:image} cannot be decoded{first}"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Return the tally of undecodable images, without truncated ones.

        If some images are truncated, the tally has no location: it may be that of a truncated
        image.
        """
        tally = shard.tally("image.undecodable")
        cut = shard.tally("image.cut").count
        return tally if not cut else Tally(tally.count - cut) if tally.count > cut else Tally()


class CutImage(ImageLossRule):
    """Image data end too early.

    What: the file lacks its end marker, or Pillow says that it is truncated. Such images are
    decoded at ``--level headers`` too, so that the losses are counted.

    Why it matters: Pillow raises "image file is truncated (n bytes not processed)". OpenCLIP drops
    the sample with a warning that names no key; webdataset 1.x, Hugging Face datasets and Ray Data
    end with an exception. If ``ImageFile.LOAD_TRUNCATED_IMAGES`` is set, the lower part of the
    picture is grey and is trained like that. An image that lacks only its last two bytes decodes.

    In practice: downloads that were cut off but stored (webdataset#206; clip-retrieval#257, #13;
    datasets#6470).

    Fix: download these images again, or leave the samples out:
    ``wdsflow repair SHARD -o repaired --drop-bad``
    """

    code = "I202"
    harmless = "warning"
    statuses = (CUT,)
    tallies = ("image.cut",)
    says = "{n:image ends|images end} too early{first}"


class Bomb(ImageLossRule):
    """An image is so large that Pillow refuses it.

    What: more than 178,956,970 pixels, twice Pillow's ``MAX_IMAGE_PIXELS``, by the image's own
    header.

    Why it matters: Pillow raises DecompressionBombError. OpenCLIP 3.3 drops the sample with a
    warning without a key; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception.
    Code that lifts the limit needs at least half a gigabyte of memory for each: a few at once kill
    the worker.

    In practice: scans, maps, panoramas and posters; a PNG of a few kilobytes that expands to
    gigabytes is an attack (memery#10, RT-DETR#337; img2dataset PR#231).

    Fix: shrink it before packing: ``convert a.png -resize '2048x2048>' b.png``. Or leave it out:
    ``wdsflow repair SHARD -o repaired --drop-bad``
    """

    code = "I203"
    tallies = ("image.bomb",)
    statuses = (BOMB,)
    says = "{n:image has|images have} over 178 megapixels{first}: Pillow refuses to decode them"


class HtmlImage(ImageLossRule):
    """Text is saved as an image.

    What: HTML, XML, SVG or JSON under an image's name, by the first bytes.

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning
    without a name in each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an
    exception.

    In practice: a downloader that did not check the status stores the page "404 Not Found" as .jpg
    (BLIP3o#65); SVG files named .png.

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them
    again.
    """

    code = "I210"
    # macOS twins of images have image names too.
    requires = ("W012", "W022")
    statuses = (MARKUP,)
    tallies = ("image.html",)
    says = "{n:image is|images are} HTML, XML or JSON text{first}"


class VeryLarge(TallyRule):
    """Images of over 89 megapixels can exhaust memory.

    What: between 89 and 178 megapixels, by the image's own header.

    Why it matters: Pillow warns (DecompressionBombWarning) and decodes them: 0.27 to 0.54 GB for
    each in RGB, in every worker that meets one, plus the transform's copies. Several at once
    exhaust a worker's memory: "DataLoader worker (pid ...) is killed by signal: Killed". The whole
    batch waits while they are decoded.

    In practice: scans, satellite pictures, posters.

    Fix: shrink them before packing: ``convert a.png -resize '2048x2048>' b.png``. OpenCLIP 4 drops
    images over ``--max-image-pixels``, 25 million by default.
    """

    code = "I211"
    tallies = ("image.bomb-warning",)
    counts_samples = True
    says = "{n:image has|images have} over 89 megapixels{first}: over 0.27 GB each when decoded"


class OverLimit(ImageLossRule):
    """Images are over the reader's pixel limit.

    What: more pixels than OpenCLIP 4's ``--max-image-pixels`` allows, 25 million by default.

    Why it matters: OpenCLIP 4 drops the sample by its header, without decoding it, with a warning
    for the first and each thousandth. OpenCLIP 3.3 and others have no limit and decode the whole
    image, which takes seconds (I219).

    In practice: sets of photographs at full resolution lose a large part when moving to OpenCLIP 4.

    Fix: raise the limit with ``--max-image-pixels 100000000`` (OpenCLIP 4; 0 removes it), or shrink
    the images before packing: ``convert a.jpg -resize '2048x2048>' b.jpg``
    """

    code = "I212"
    tallies = ("image.large",)
    statuses = (BIG, BIG_BAD)
    says = "{n:image is|images are} very large{first}"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Exclude bombs, which I203 reports. Limits below 25 million are visible only in shapes."""
        tally, bombs = shard.tally("image.large"), shard.tally("image.bomb").count
        large = (
            Tally(tally.count - bombs, tally.key, tally.offset, tally.detail)
            if tally.count > bombs
            else Tally()
        )
        over = Tally()
        for item in shard.runs.shape_counts():
            if any(part.status in self.statuses for part in item.shape):
                over.add(item.key, item.offset, count=item.count)
        return large if large.count >= over.count else over


class EmptyImage(ImageLossRule):
    """Images are empty.

    What: image members of size 0.

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning
    without a name in each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an
    exception.

    In practice: failed downloads of which only the file name was kept, a full disk while packing.

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them
    again.
    """

    code = "I216"
    # macOS twins of images have image names too.
    requires = ("W012", "W022")
    statuses = (EMPTY,)
    tallies = ("image.empty",)
    says = "{n:image is|images are} empty"


class NotAnImage(ImageLossRule):
    """Files with an image extension are not images.

    What: the first bytes are neither of an image format known to Pillow nor text (I210).

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning
    without a name in each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an
    exception. OpenCLIP 3.3 drops it even if the file is a side field, such as a video named
    ``.mpg`` or an ``.h5`` table, which webdataset takes for images.

    In practice: files shifted or overwritten on a bad disk, encrypted or zero-filled data, paths
    stored instead of pictures (TarWriter stores a ``str`` as text).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out. Side fields can be
    renamed: ``--rename mpg=video``
    """

    code = "I217"
    # macOS twins of images have image names too.
    requires = ("W012", "W022")
    statuses = (NOT_IMAGE,)
    tallies = ("image.not-image",)
    says = "{n:image is|images are} not an image by the first bytes{first}"


class DamagedImage(QualityRule):
    """Image data are damaged, and readers do not notice.

    What: a strict decoder finds errors in the compressed data that Pillow ignores. Found only at
    ``--level full``.

    Why it matters: the picture decodes, with a grey or shifted part after the damage, and is
    trained like that. Damaged bytes suggest a bad disk, memory or transfer: other files are
    probably damaged too, undetected.

    In practice: pictures whose lower half is grey or in wrong colours; a log full of "Corrupt JPEG
    data: premature end of data segment".

    Fix: fetch the shard again and compare: ``sha256sum SHARD``
    """

    code = "I218"
    tallies = ("image.damaged",)
    says = "{n} {verb:is damaged but decodes|are damaged but decode}{where}: a part of the picture is grey or shifted"
    common = 0.001


class SlowImages(Rule):
    """Images are far larger than training needs.

    What: half of the images have 4 megapixels or more.

    Why it matters: a worker decodes every image at its full size and discards most of it. For a
    model that sees 224 x 224, an image of 12 megapixels means 240 decoded pixels for each used one.
    The first batch takes minutes, the GPU waits for the loader, and the shuffle buffer of 5,000 raw
    samples per worker fills the memory.

    In practice: photographs at full resolution, scans (webdataset#267; pytorch-DR#1: 20 to 700 MB
    per image).

    Fix: shrink them once, before packing: ``mogrify -resize '512x512^>' FOLDER/*.jpg``, or when
    downloading:
    ``img2dataset --image_size 512 --resize_mode keep_ratio --resize_only_if_bigger True``
    """

    code = "I219"

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[int] = Counter()
        pixels = size = 0
        for shard in context.evidence.shards:
            counts.update(shard.images.megapixels)
            pixels += shard.images.pixels
            size += shard.images.bytes
        images = counts.total()
        large = sum(count for power, count in counts.items() if power >= _LARGE)
        if not images or large * 2 < images:
            return
        mean = pixels / images
        yield self.finding(
            f"{large:,} of {images:,} images have 4 megapixels or more (on average {mean / 1e6:.1f} megapixels, "
            f"{size / images / 1e6:.1f} MB): {mean / _MODEL_PIXELS:,.0f} pixels are decoded for each that a 224-pixel "
            "model sees",
            context.reader_names(),
            count=large,
            of=images,
        )
