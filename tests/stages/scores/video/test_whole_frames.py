"""The frames sampled from videos of many kinds, and the messages for odd videos.

``golden_file`` explains how to update the expected text.
"""

from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

av = pytest.importorskip("av")

import numpy as np  # noqa: E402

from tests.golden_file import check_text  # noqa: E402
from tests.stages.scores.fields import Counting  # noqa: E402
from tests.videos import decoded, frame, video  # noqa: E402
from wdsflow.stages.scores import ScoreError, View  # noqa: E402
from wdsflow.stages.scores.video_frames import Sampling  # noqa: E402

GOLDEN = Path(__file__).parent / "frames.txt"


class Stream(BytesIO):
    """A stream that is written once, from front to back.

    A container cannot seek back to write its duration or index.
    """

    def seekable(self):
        return False

    seek = None


def made(pictures, kind, *, codec="mpeg4", keys=12, edit=None, out=None, **options):
    """Return a video whose packets ``edit`` changes before they are written.

    A packet for which ``edit`` returns False is left out.
    """
    stream = BytesIO() if out is None else out
    with av.open(stream, "w", format=kind, options=options) as container:
        track = container.add_stream(codec, rate=10)
        track.width, track.height, track.pix_fmt, track.bit_rate, track.gop_size = (
            64,
            48,
            "yuv420p",
            2_000_000,
            keys,
        )
        # Key frames where they are asked for, and no others.
        track.codec_context.options = {"sc_threshold": "1000000000"}
        packets = [
            packet
            for number in range(pictures)
            for packet in track.encode(av.VideoFrame.from_image(frame(number)))
        ]
        for number, packet in enumerate([*packets, *track.encode()]):
            if packet.size and (edit is None or edit(number, packet) is not False):
                container.mux(packet)
    return stream.getvalue()


def later(by, start=0):
    def edit(number, packet):
        if number >= start:
            packet.pts += round(by / packet.time_base)
            packet.dts += round(by / packet.time_base)

    return edit


def no_key(number, packet):
    packet.is_keyframe = False


def without(*numbers):
    return lambda number, packet: number not in numbers


VIDEOS = {
    "mp4": lambda: made(53, "mp4", keys=7),
    "mkv": lambda: made(53, "matroska", keys=7),
    "avi": lambda: made(53, "avi", keys=7),
    "mov, b-frames": lambda: made(40, "mov", codec="libx264", keys=20),
    "one frame": lambda: made(1, "mp4"),
    "two frames": lambda: made(2, "matroska"),
    "one key frame": lambda: made(130, "matroska", keys=300),
    "fragments": lambda: made(53, "mp4", keys=7, movflags="frag_keyframe+empty_moov"),
    "streamed mkv": lambda: made(53, "matroska", keys=7, out=Stream()),
    "starts late": lambda: made(53, "matroska", keys=7, edit=later(100)),
    "starts late, mp4": lambda: made(53, "mp4", keys=7, edit=later(100)),
    "a pause": lambda: made(53, "mp4", keys=7, edit=later(30, 20)),
    "a pause in mkv": lambda: made(53, "matroska", keys=7, edit=later(30, 20)),
    "no key frames, avi": lambda: made(30, "avi", keys=300, edit=no_key),
    "begins without its key frame": lambda: made(30, "matroska", keys=10, edit=without(0)),
    "a lost frame": lambda: made(30, "mp4", keys=10, edit=without(14)),
    "a header alone": lambda: (data := made(9, "matroska"))[: data.index(b"\x1f\x43\xb6\x75")],
    "a streamed header alone": lambda: (data := made(9, "matroska", out=Stream()))[
        : data.index(b"\x1f\x43\xb6\x75")
    ],
    "frames without times": lambda: made(
        9, "avi", edit=lambda number, packet: setattr(packet, "pts", None)
    ),
}
SAMPLINGS = [
    ("uniform", 1),
    ("uniform", 2),
    ("uniform", 5),
    ("uniform", 9),
    ("key", 0),
    ("key", 1),
    ("key", 2),
    ("key", 4),
]


@cache
def arrays(name):
    try:
        return [np.asarray(image) for _, image in decoded(VIDEOS[name]())]
    except Exception:
        return []


def numbers(name, found):
    """The numbers of frames among all that the video has."""
    every = arrays(name)
    return " ".join(
        str(
            next((number for number, other in enumerate(every) if np.array_equal(each, other)), "?")
        )
        for each in found
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", VIDEOS)
def test_the_frames_of_videos_are_these(name):
    data = VIDEOS[name]()
    lines = []
    for how, count in SAMPLINGS:
        try:
            said = numbers(name, View({"mp4": data}).frames("mp4", Sampling(how, count)))
        except ScoreError as error:
            said = str(error)
        lines.append(f"{how} {count}: {said}")
    check_text(GOLDEN, name, "\n".join(lines))


def test_a_video_is_sought_in_not_read_through():
    data = video(400, keys=10, movflags="faststart", size=(320, 240))
    for how, most in (("uniform", 0.25), ("key", 0.25)):
        fields = Counting({"mp4": data})
        assert len(View(fields).frames("mp4", Sampling(how, 3))) == 3
        assert sum(size for _, _, size in fields.reads) < len(data) * most
