"""Scores from the header of a video, which PyAV reads in parts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

from wdsflow.media.least_size import HEAD, least_size
from wdsflow.text.install import install_extras

from .base import ScoreError, simple_score
from .sample_fields import FieldReader, as_file

# Not playlists, manifests and the like: these make FFmpeg open other files and addresses that they name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
_TRUNCATED = frozenset(("EOFError", "OSError"))  # PyAV's, when a part is missing


@contextmanager
def opened(reader: FieldReader, name: str) -> Iterator[Any]:
    """Open a field as PyAV's container. Raises ScoreError, also for what PyAV raises inside of the block.

    Slugs: "not-a-video" (another format than MP4, MOV, Matroska, WebM and AVI), "truncated", "undecodable",
    "no-video-stream", "not-installed".
    """
    try:
        import av
    except ImportError:
        raise ScoreError("not-installed", f"videos need PyAV: {install_extras('video')}") from None
    size = reader.fields.size(name)
    if not size:
        raise ScoreError("not-a-video", "it is empty")
    least = least_size(reader.read(name, 0, HEAD))
    if least > size:
        raise ScoreError("truncated", f"it has {size:,} of {least:,} bytes")
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        with av.open(as_file(reader, name), "r", options=options, metadata_errors="replace") as container:
            yield container
    except av.error.FFmpegError as error:
        raise ScoreError(_slug(reader, name, error), f"{size:,} bytes: {str(error)[:200]}") from None


def video_stream(container: Any) -> Any:
    """Return the first stream that is a video and no cover picture. Raises ScoreError."""
    for stream in container.streams.video:
        if "attached_pic" not in str(stream.disposition):
            return stream
    raise ScoreError("no-video-stream", f"there are {len(container.streams)} streams, none of them a video")


def _slug(reader: FieldReader, name: str, error: Exception) -> str:
    if type(error).__name__ in _TRUNCATED:
        return "truncated"
    head = reader.read(name, 0, 16)
    known = head[4:8] in {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"}
    known = known or head[:4] == b"\x1aE\xdf\xa3" or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
    return "undecodable" if known else "not-a-video"


_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class VideoFacts(NamedTuple):
    """Facts of the first video stream; None for what the header does not tell.

    ``duration`` is in seconds. It is the stream's own, except where Matroska knows that of the whole file only:
    ``exact`` is False then. ``width`` and ``height`` are those of the stored frames: rotation is ignored.
    """

    duration: Fraction | None
    exact: bool
    fps: Fraction | None
    width: int
    height: int
    frames: int | None


def video_facts(reader: FieldReader, name: str) -> VideoFacts:
    """Return the facts of a field; no frame is decoded. Raises ScoreError."""
    with opened(reader, name) as container:
        return facts_of(container, video_stream(container), reader.fields.size(name))


def facts_of(container: Any, stream: Any, size: int) -> VideoFacts:
    """Return the facts of an open video of ``size`` bytes. Raises ScoreError."""
    context = stream.codec_context
    if context is None:
        raise ScoreError("undecodable", "its codec is unknown")
    if not (context.width > 0 and context.height > 0):
        raise ScoreError("unknown-size", "the header has no width and height")
    index = stream.index_entries
    if len(index) and index[-1].pos + index[-1].size > size:
        raise ScoreError("truncated", f"its last frame ends at byte {index[-1].pos + index[-1].size:,} of {size:,}")
    duration, exact = _duration(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    return VideoFacts(duration, exact, rate or None, context.width, context.height, stream.frames or None)


def _duration(container: Any, stream: Any) -> tuple[Fraction | None, bool]:
    if stream.duration is not None and stream.duration > 0 and stream.time_base:
        return stream.duration * stream.time_base, True
    clock = _CLOCK.match(stream.metadata.get("DURATION", ""))
    if clock is not None:
        hours, minutes, seconds = clock.groups()
        seconds = (int(hours) * 60 + int(minutes)) * 60 + Fraction(seconds)
        if seconds > 0:
            return seconds, True
    if container.duration is not None and container.duration > 0:
        return Fraction(container.duration, 1_000_000), False
    return None, False


@simple_score(unit="seconds", low=0)
def duration(facts: VideoFacts) -> float:
    """Duration of the video in seconds, to the microsecond, by its header.

    That of the first video stream, or of the whole file if the header has no other. "unknown-duration" if it has none,
    as in live recordings. From 0 on. Source: PyAV; Data-Juicer's video_duration rounds it to seconds.
    """
    if facts.duration is None:
        raise ScoreError("unknown-duration", "the header has no duration")
    return round(float(facts.duration), 6)


@simple_score(unit="frames/s", low=0)
def fps(facts: VideoFacts) -> float:
    """Frames per second of the video: the mean by its header, otherwise FFmpeg's guess.

    "unknown-fps" if there is neither. From 0 on. Source: PyAV's average_rate, guessed_rate.
    """
    if facts.fps is None:
        raise ScoreError("unknown-fps", "the header has no frame rate")
    return round(float(facts.fps), 6)


@simple_score(unit="pixels", low=1)
def video_height(facts: VideoFacts) -> int:
    """Height of the video's frames in pixels, as stored: a rotation in the header is ignored.

    From 1 on. Source: PyAV; Data-Juicer's video_height.
    """
    return facts.height


@simple_score(unit="pixels", low=1)
def video_width(facts: VideoFacts) -> int:
    """Width of the video's frames in pixels, as stored: a rotation in the header is ignored.

    From 1 on. Source: PyAV; Data-Juicer's video_width.
    """
    return facts.width
