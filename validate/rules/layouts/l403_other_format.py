from typing import ClassVar, Literal

from ..kit.caption_rule import QualityRule


class OtherFormat(QualityRule):
    """Audio or video has another format than its extension says.

    What: the first bytes are of another format than the extension, such as MP3 data in ``a.wav``. Known are wav,
    flac, mp3, ogg, opus, m4a, aac and aiff; mp4, mov, webm, mkv, avi, ogv and flv. WebM and Matroska count as one
    format, and so do MP4 and MOV.

    Why it matters: FFmpeg, PyAV and libsndfile look at the bytes and decode them. Decoders that go by the name fail:
    Python's ``wave``, webdataset's ``torch_audio`` and ``torch_video`` with a format hint, players in a browser. Sample
    rate and length estimates from the file size are wrong.

    In practice: files renamed instead of converted; downloaders that name all audio .mp3 although the site sent M4A or
    Opus.

    Fix: give the field the right name, ``wdsflow repair SHARD -o repaired --rename wav=mp3``, or convert the files
    before packing: ``ffmpeg -i a.wav b.flac``
    """

    code = "L403"
    severity = "info"
    unit: ClassVar[Literal["member"]] = "member"
    tallies = ("media.wrong-format",)
    predicate = "are audio or video of another format than their extension says"
    predicate_one = "is audio or video of another format than its extension says"
    consequence = "FFmpeg goes by the bytes, others by the name"
