from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class CutMedia(TallyRule):
    """Audio or video is cut.

    What: the file is shorter than its own header says (WAV, AVI, Matroska, WebM), or a box of an MP4 or MOV is cut
    or its index (``moov``) is missing. FLAC, MP3, AAC and Ogg do not say how long they are.

    Why it matters: an MP4 without its index does not open at all: "moov atom not found". Others decode up to the cut,
    so clips are shorter than their transcript or caption, and a frame picked by time is missing.

    In practice: downloads with a limit on time or size, a full disk, a recorder that was killed before it wrote the
    index.

    Fix: download the files again, or leave such samples out when packing: ``ffmpeg -v error -i FILE -f null -`` prints
    an error for each.
    """

    code = "L405"
    severity = "warning"
    requires = ("W001", "W012", "W022")  # macOS twins have such names too
    tallies = ("media.cut",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'audio or video member is', 'audio or video members are')} cut{first_seen(detail)}"
