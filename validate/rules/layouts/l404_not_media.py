from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class NotMedia(TallyRule):
    """Files with an audio or video extension are neither.

    What: the file is empty, or its first bytes are of no known audio or video format.

    Why it matters: the decoder raises an exception. Loaders of audio and video often decode in the training loop or in
    a collate function, outside of webdataset's ``handler``, and the run ends there.

    In practice: a downloader that did not check the status stores the page "404 Not Found" as .mp4; failed
    downloads of which only the file name was kept; raw PCM without a header named .wav; paths stored instead of data.

    Fix: download the files again, or leave such samples out when packing. ``ffprobe FILE`` says whether a file opens.
    ``wdsflow inspect SHARD --show KEY`` shows the sample.
    """

    code = "L404"
    severity = "warning"
    requires = ("W012", "W022")  # macOS twins have such names too
    tallies = ("media.not-media", "media.empty")

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "is" if count == 1 else "are"
        empty = shard.tally("media.empty").count
        told = f", {empty:,} of them empty" if empty else ""
        return (
            f"{how_many(count, 'member')} {verb} neither audio nor video by the first bytes{told}{first_seen(detail)}"
        )
