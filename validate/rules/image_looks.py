"""Images that decode, but may be unsuitable for training."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Finding
from .kit.base import Context, Rule, filter_repair
from .kit.quality_rules import QualityRule
from .sample_keys import shared_sketches

_REPEATED_SHARE = 0.001
_REPEATED_LEAST = 10
# Shards with images of earlier ones that are reported.
_MOST_PAIRS = 3


class Tiny(QualityRule):
    """Images are tiny.

    What: the shorter side has fewer than 32 pixels.

    Why it matters: readers enlarge them to the model's size. The picture is a blur of a few
    colours, or a tracking pixel, and the caption describes something else.

    In practice: icons, spacers and tracking pixels in crawls (img2dataset#41).

    Fix: leave them out when downloading: ``img2dataset --min_image_size 64 ...``
    """

    code = "I204"
    tallies = ("image.tiny",)
    says = "{n} {verb:has|have} a side of under 32 pixels{where}: enlarged to the model's size, they show little"


class ExtremeAspect(QualityRule):
    """Images are extremely wide or high.

    What: one side is more than ten times the other.

    Why it matters: a square crop shows a tenth of the picture or less. In evaluation, the shortest
    side is enlarged to the model's size before the crop: a picture of 1 x 10,000 pixels becomes 224
    x 2,240,000, which is 1.5 GB.

    In practice: banners, rulers, separators, sprites, screenshots of whole pages (img2dataset
    PR#193).

    Fix: leave them out when downloading: ``img2dataset --max_aspect_ratio 3 ...``
    """

    code = "I205"
    tallies = ("image.extreme-aspect",)
    says = "{n} {verb:is|are} more than ten times as long as wide{where}: a square crop shows a small part"


class Cmyk(QualityRule):
    """Images are in CMYK.

    What: four printing inks instead of red, green and blue.

    Why it matters: Pillow converts them without the colour profile: colours come out too bright or
    shifted, and files whose values are inverted (as Adobe writes them) may look like negatives
    elsewhere. turbojpeg needs an option to read them at all.

    In practice: pictures made for print, stock photographs.

    Fix: convert them before packing: ``convert a.jpg -profile sRGB.icc b.jpg``
    """

    code = "I206"
    tallies = ("image.cmyk",)
    says = "{n} {verb:is|are} in CMYK{where}: readers convert it without the colour profile"


class AnimatedImage(QualityRule):
    """Images are animated.

    What: a GIF, WebP or PNG with more than one frame.

    Why it matters: readers take the first frame, which is often blank or a title, while the caption
    describes what happens. The other frames are loaded and discarded.

    In practice: GIFs from message boards, animated WebP from messengers.

    Fix: leave them out, or choose a frame before packing: ``convert 'a.gif[10]' b.png``
    """

    code = "I207"
    tallies = ("image.animated",)
    says = "{n} {verb:is|are} animated{where}: only the first frame is used"


class Uniform(QualityRule):
    """Images are of one colour.

    What: all pixels are the same. Found only at ``--level full``.

    Why it matters: the model learns nothing but a wrong caption for white or black. Each such image
    adds noise to its batches.

    In practice: placeholders, broken renderings, pictures with all their content in the alpha
    channel.

    Fix: leave them out before packing:
    ``if len(set(image.resize((8, 8)).getdata())) == 1: continue``
    """

    code = "I208"
    tallies = ("image.uniform",)
    says = "{n} {verb:is|are} of one colour{where}: they show nothing"


class Repeated(Rule):
    """The same image occurs many times.

    What: one image, byte for byte, is in at least ten samples and one in a thousand of all; or two
    shards share images. Found only at ``--level full``; the counts are lower bounds.

    Why it matters: the same picture with many captions teaches the model to ignore captions. Inside
    a batch, equal pictures count as mismatches. Shards that share images count them twice, and may
    be the old and the new export in one folder.

    In practice: "image not available" pictures that servers send for dead links, thousands of times
    (Recap-DataComp-1B#11); the same url with several captions (img2dataset#244).

    Fix: ``wdsflow filter SHARD -o filtered --where 'not duplicate'`` keeps the first sample of
    those with the same image. A placeholder remains once.
    """

    code = "I209"

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        counts: Counter[int] = Counter()
        for shard in shards:
            counts.update(shard.frequent_images)
        images = sum(shard.images.count for shard in shards)
        least = max(_REPEATED_LEAST, _REPEATED_SHARE * images)
        # The most frequent first.
        repeated = [(value, count) for value, count in counts.most_common() if count >= least]
        fix = filter_repair(
            context.targets(), "not duplicate", "keeps the first sample of each image"
        )
        if repeated:
            value, most = repeated[0]
            others = ""
            if len(repeated) > 1:
                others = f", {how_many(len(repeated) - 1, 'other')} in fewer"
            first = next(shard for shard in shards if value in shard.frequent_images)
            samples = how_many(images, "sample")
            message = f"one image is in at least {most:,} of {samples}{others}: placeholders?"
            total = sum(count for _, count in repeated)
            yield self.finding(
                message, context.reader_names(), first, count=total, of=images, fix=fix
            )
        for earlier, later in islice(shared_sketches(context, "image_sketch"), _MOST_PAIRS):
            name = escape(earlier.url.rpartition("/")[2])
            message = f"shares images with {name}: at least one in eight"
            yield self.finding(message, context.reader_names(), later, fix=fix)


class HighDepth(QualityRule):
    """Images have more than 8 bits per channel.

    What: 16-bit or floating-point pixels.

    Why it matters: readers convert with ``convert("RGB")``, which clips 16-bit grey instead of
    scaling it: everything above 255 of 65,535 turns white. Floating-point pictures with values up
    to 1 turn black. The picture is silently lost.

    In practice: depth maps, medical and satellite pictures, scans as 16-bit PNG or TIFF.

    Fix: scale them before packing: ``convert a.png -depth 8 b.png``
    """

    code = "I213"
    tallies = ("image.high-depth",)
    says = "{n} {verb:has|have} more than 8 bits per channel{where}: convert('RGB') clips to white or black"
    common = 0.0


class Alpha(QualityRule):
    """Images have transparency.

    What: an alpha channel or a transparent colour.

    Why it matters: readers drop it with ``convert("RGB")``: hidden content becomes visible, often
    black, or leftover colours under the transparent parts. img2dataset puts pictures on white
    instead, so two sources differ. Pillow warns for each palette image with transparency, which
    floods the log.

    In practice: logos, stickers, clip art, cut-out products as PNG or WebP (paimon#10096).

    Fix: put them on white before packing: ``convert a.png -background white -alpha remove b.png``
    """

    code = "I214"
    tallies = ("image.alpha",)
    says = "{n} {verb:has|have} transparency{where}: readers drop it, and hidden colours become visible"
    common = 0.05


class Rotated(QualityRule):
    """Images are stored rotated.

    What: by their EXIF orientation, they must be turned or mirrored before they are shown.

    Why it matters: OpenCLIP, webdataset and Pillow's ``load`` ignore it: the model sees people
    lying on their side. A crop of a tall picture that is stored wide shows the wrong part.

    In practice: photographs from telephones (diffusers PR#3465, tfds#3202).

    Fix: turn them before packing, without loss: ``exiftran -ai *.jpg``, or in Python
    ``ImageOps.exif_transpose(image)``
    """

    code = "I215"
    tallies = ("image.rotated",)
    says = "{n} {verb:is|are} stored rotated{where}: readers ignore the EXIF orientation"
    common = 0.02
