"""Samples that refer to other files, or hold other media."""

from collections.abc import Iterator

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.layouts import layout_of
from wdsflow.text.words import how_many

from ..finding import Finding
from .kit.base import Context, Rule, TallyRule, example_text
from .kit.quality_rules import QualityRule

# Rules about split or merged samples, whose images are not together.
_SPLITTING = ("W001", "W002", "W006", "W010", "W012", "W022", "W029", "W030")


class ImageNumbers(TallyRule):
    """Json and sample do not have the same number of images.

    What: the json of a sample has places for images, and the sample has more or fewer images:
    ``<image>`` tokens in the ``conversations`` of LLaVA, image parts in chat ``messages``, entries
    of ``image_info`` (MMC4) or ``images`` (OBELICS). Masks and depth maps do not count. Samples
    with a video are left out, as their tokens stand for frames.

    Why it matters: models of this kind put the features of the n-th image at the n-th place. With
    too few images training ends with an IndexError or a message such as "Image features and image
    tokens do not match", perhaps after hours; with too many, some are silently left out, or all
    texts after the first gap get the wrong image.

    In practice: images that failed to download, while the json still lists them; conversations cut
    to a length with a token in the part that was cut; tokens that a cleaning script removed as
    markup.

    Fix: write the json again with a place for each image that is there, or leave such samples out:
    ``sample["json"]["conversations"]`` is a list of turns with ``value``.
    """

    code = "L401"
    requires = _SPLITTING
    tallies = ("interleaved.images-differ",)
    says = "{n:sample has|samples have} more or fewer images than places for them{first}"
    counts_samples = True


class FileMissing(TallyRule):
    """A file that the json lists is not in the sample.

    What: the json of an interleaved sample lists files (``image`` or ``images`` next to
    ``conversations`` or ``messages``, ``image_name`` of MMC4), and one of them is not a member of
    the sample. Names are compared without folder, extension and case, with the full name of the
    member and with its field. The rule is silent in shards where no sample has any of its files:
    there the names say where the images came from.

    Why it matters: loaders look the file up by its name and raise KeyError, or skip the sample
    silently. Loaders that go by position put the next image in its place.

    In practice: failed downloads, images renamed after the json was written, documents cut in two
    by a limit on the size of a shard.

    Fix: pack the file, or remove it from the list together with its place in the text.
    ``wdsflow inspect SHARD --show KEY`` shows one sample with its json.
    """

    code = "L402"
    requires = _SPLITTING
    tallies = ("interleaved.file-missing",)
    says = "{n:sample does|samples do} not have all files that the json lists{first}"
    counts_samples = True


class OtherFormat(QualityRule):
    """Audio or video has another format than its extension says.

    What: the first bytes are of another format than the extension, such as MP3 data in ``a.wav``.
    Known are wav, flac, mp3, ogg, opus, m4a, aac and aiff; mp4, mov, webm, mkv, avi, ogv and flv.
    WebM and Matroska count as one format, and so do MP4 and MOV.

    Why it matters: FFmpeg, PyAV and libsndfile look at the bytes and decode them. Decoders that go
    by the name fail: Python's ``wave``, webdataset's ``torch_audio`` and ``torch_video`` with a
    format hint, players in a browser. Sample rate and length estimates from the file size are
    wrong.

    In practice: files renamed instead of converted; downloaders that name all audio .mp3 although
    the site sent M4A or Opus.

    Fix: give the field the right name, ``wdsflow repair SHARD -o repaired --rename wav=mp3``, or
    convert the files before packing: ``ffmpeg -i a.wav b.flac``
    """

    code = "L403"
    severity = "info"
    tallies = ("media.wrong-format",)
    says = "{n} {verb:is audio or video of another format than its|are audio or video of another format than their} extension says{where}: FFmpeg goes by the bytes, others by the name"


class NotMedia(TallyRule):
    """Files with an audio or video extension are neither.

    What: the file is empty, or its first bytes are of no known audio or video format.

    Why it matters: the decoder raises an exception. Loaders of audio and video often decode in the
    training loop or in a collate function, outside of webdataset's ``handler``, and the run ends
    there.

    In practice: a downloader that did not check the status stores the page "404 Not Found" as .mp4;
    failed downloads of which only the file name was kept; raw PCM without a header named .wav;
    paths stored instead of data.

    Fix: download the files again, or leave such samples out when packing. ``ffprobe FILE`` says
    whether a file opens. ``wdsflow inspect SHARD --show KEY`` shows the sample.
    """

    code = "L404"
    # macOS twins have such names too.
    requires = ("W012", "W022")
    tallies = ("media.not-media", "media.empty")
    counts_samples = True

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        empty = shard.tally("media.empty").count
        of_them = f", {empty:,} of them empty" if empty else ""
        members = how_many(count, "member is", "members are")
        return (
            f"{members} neither audio nor video by the first bytes{of_them}{example_text(detail)}"
        )


class CutMedia(TallyRule):
    """Audio or video is cut.

    What: the file is shorter than its own header says (WAV, AVI, Matroska, WebM), or a box of an
    MP4 or MOV is cut or its index (``moov``) is missing. FLAC, MP3, AAC and Ogg do not say how long
    they are.

    Why it matters: an MP4 without its index does not open at all: "moov atom not found". Others
    decode up to the cut, so clips are shorter than their transcript or caption, and a frame picked
    by time is missing.

    In practice: downloads with a limit on time or size, a full disk, a recorder that was killed
    before it wrote the index.

    Fix: download the files again, or leave such samples out when packing:
    ``ffmpeg -v error -i FILE -f null -`` prints an error for each.
    """

    code = "L405"
    # macOS twins have such names too.
    requires = ("W001", "W012", "W022")
    tallies = ("media.cut",)
    counts_samples = True
    says = "{n:audio or video member is|audio or video members are} cut{first}"


class NotImageText(Rule):
    """The reader trains on samples that are not image-text pairs.

    What: most samples have several images, an interleaved document or conversation, a video or
    audio, and the reader takes one image and one caption of each: OpenCLIP, and the feed of
    ``wdsflow train``.

    Why it matters: training runs, but not on what the samples say. Of several images only one is
    used, of a conversation or document only what the caption field holds; video and audio are read
    and thrown away.

    In practice: instruction data of a vision-language model used to continue CLIP training; video
    shards with a thumbnail and a title next to each clip.

    Fix: nothing if one image and its caption are what you want. Otherwise use the loader that the
    data were made for; ``wdsflow validate URL... --pipeline train.py:make`` judges for it.
    ``wdsflow train`` feeds image-text pairs only.
    """

    code = "L406"
    # These say the same of sets that do not train, or lose an image.
    requires = ("F101", "F123")

    def check(self, context: Context) -> Iterator[Finding]:
        layout = layout_of(context.evidence.shards)
        if layout.is_image_text:
            return
        samples = context.evidence.samples
        # A reader that gets more samples takes all images of a key, one after the other.
        usable = {verdict.reader for verdict in context.verdicts if 0 < verdict.usable <= samples}
        taking_pairs = [reader.name for reader in context.readers if reader.takes_one_pair]
        readers = [name for name in taking_pairs if name in usable]
        if not readers:
            return
        verb = "uses" if len(readers) == 1 else "use"
        effect = f"{context.reader_titles(readers)} {verb} only one image and one caption of each"
        message = f"{how_many(samples, 'sample')}: {layout.text()}; {effect}"
        yield self.finding(message, readers, count=samples)
