"""Videos, which PyAV reads in parts: scores from their headers, and frames as images.

Frames are found by seeking, so that most of a long video is not decoded.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from wdsflow.media import SIZE_HEAD, least_size

from .base import ScoreError
from .sample_fields import FieldFile, FieldReader
from .simple_score import simple_score

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from numpy.typing import NDArray

    # Height, width, 3.
    Frame = NDArray[np.uint8]

# PyAV's types allow None for times that an open video has.
VideoStream = Any
VideoFrame = Any

# No playlists, manifests and the like: they make FFmpeg open the files and addresses that they
# name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")

How = Literal["uniform", "key"]

# Frames from a key frame on; a video with fewer key frames is hostile, or no video to sample.
_MOST_DECODED = 20_000
# Bytes a pixel: a decoder's reference frames, its output, the frame in RGB.
_DECODER = 12
# Seconds that are decoded rather than sought if no index lists key frames.
_NEAR = 5
# Seconds to go back if seeking ends too late.
_LATE = (0, 1, 10)
# Seconds that a stream may end before its header says.
_ENDS_EARLY = 2


class VideoFacts(NamedTuple):
    """Facts of the first video stream; None if the header lacks one.

    ``duration`` is in seconds. It is the stream's own; if Matroska has only that of the whole file,
    ``exact`` is False. ``width`` and ``height`` are those of the stored frames: rotation is
    ignored.
    """

    duration: Fraction | None
    exact: bool
    fps: Fraction | None
    width: int
    height: int
    frames: int | None


@contextmanager
def opened(
    reader: FieldReader, name: str
) -> "Iterator[tuple[InputContainer, VideoStream, VideoFacts]]":
    """Open a field with PyAV; yield the container, the first video stream that is not a cover picture, and its facts.

    Raises ScoreError, also for PyAV's errors in the block. Slugs: "not-a-video" (not MP4, MOV,
    Matroska, WebM or AVI), "truncated", "undecodable", "unknown-size", "no-video-stream",
    "not-installed".
    """
    try:
        import av
    except ImportError:
        from wdsflow.text.install import install_extras

        raise ScoreError("not-installed", f"videos need PyAV: {install_extras('video')}") from None
    size = reader.fields.size(name)
    if not size:
        raise ScoreError("not-a-video", "it is empty")
    least = least_size(reader.read(name, 0, SIZE_HEAD))
    if least > size:
        raise ScoreError("truncated", f"it has {size:,} of {least:,} bytes")
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
    try:
        with av.open(
            FieldFile(reader, name), "r", options=options, metadata_errors="replace"
        ) as container:
            streams = (
                each
                for each in container.streams.video
                if "attached_pic" not in str(each.disposition)
            )
            stream: VideoStream = next(streams, None)
            if stream is None:
                count = len(container.streams)
                raise ScoreError(
                    "no-video-stream", f"there are {count} streams, none of them a video"
                )
            yield container, stream, _facts_of(container, stream, size)
    except av.error.FFmpegError as error:
        raise ScoreError(
            _slug(reader, name, error), f"{size:,} bytes: {str(error)[:200]}"
        ) from None


def _slug(reader: FieldReader, name: str, error: Exception) -> str:
    # PyAV's, if a part is missing.
    if type(error).__name__ in ("EOFError", "OSError"):
        return "truncated"
    head = reader.read(name, 0, 16)
    known = head[4:8] in {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"}
    known = known or head[:4] == b"\x1aE\xdf\xa3" or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
    return "undecodable" if known else "not-a-video"


def video_facts(reader: FieldReader, name: str) -> VideoFacts:
    """Return the facts of a field; no frame is decoded. Raises ScoreError."""
    with opened(reader, name) as (_container, _stream, facts):
        return facts


def _facts_of(container: "InputContainer", stream: VideoStream, size: int) -> VideoFacts:
    context = stream.codec_context
    if context is None:
        raise ScoreError("undecodable", "its codec is unknown")
    if not (context.width > 0 and context.height > 0):
        raise ScoreError("unknown-size", "the header has no width and height")
    index = stream.index_entries
    if len(index) and index[-1].pos + index[-1].size > size:
        raise ScoreError(
            "truncated",
            f"its last frame ends at byte {index[-1].pos + index[-1].size:,} of {size:,}",
        )
    duration, exact = _duration(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    return VideoFacts(
        duration, exact, rate or None, context.width, context.height, stream.frames or None
    )


def _duration(container: "InputContainer", stream: VideoStream) -> tuple[Fraction | None, bool]:
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

    That of the first video stream, or of the whole file if the header has no other.
    "unknown-duration" if it has none, as in live recordings. From 0 on. Source: PyAV; Data-Juicer's
    video_duration rounds it to seconds.
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


class Sampling(NamedTuple):
    """A number of frames, "uniform" over the duration or evenly among the key frames; of these, 0 stands for all."""

    how: How = "uniform"
    frames: int = 3


class InMemory(Protocol):
    """An array, or the like."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""


class Prepares(Protocol):
    """Makes a model's input from a picture; instances that make the same input are equal."""

    def of(self, pixels: "Frame") -> InMemory:
        """Return the input for a picture (height, width, 3)."""


Make = Callable[["Frame"], InMemory]


class Frames(list[InMemory]):
    """The frames of a video in order, or model inputs made from them. Unlike a list, it can be weakly referenced."""


def video_frames(
    reader: FieldReader, name: str, sampling: Sampling, budget: int, make: Make | None = None
) -> Frames:
    """Return frames of a field, RGB as of PyAV's ``to_image``. Never empty.

    ``make`` converts each frame as soon as it is decoded, so that only one of full size is in
    memory.

    "uniform": ``frames`` times are evenly spaced over the duration, including both ends (a single
    one is in the middle). For each, the first frame that is not before it, and after the previous
    frame; if there is none, the last frame. Fewer if the video has fewer frames. Source:
    Data-Juicer's ``extract_video_frames_uniformly``. "key": ``frames`` evenly chosen key frames,
    the middle one for 1, all for 0; without key frames, the first frame.

    Raises ScoreError: "over-budget" if the frames would take more than ``budget`` bytes,
    "truncated", "undecodable".
    """
    with opened(reader, name) as (container, stream, facts):
        taker = _Taker(container, stream, facts, budget, make)
        if sampling.how == "uniform":
            taker.take_uniform(sampling.frames)
        else:
            taker.take_key(sampling.frames)
    if not taker.taken:
        raise ScoreError("truncated", "no frame could be decoded")
    return taker.taken


class _Taker:
    """Takes frames of an open video, within a budget."""

    def __init__(
        self,
        container: "InputContainer",
        stream: VideoStream,
        facts: VideoFacts,
        budget: int,
        make: Make | None,
    ) -> None:
        self.container, self.stream, self.facts = container, stream, facts
        self.taken = Frames()
        self._make = make
        self._left = budget - _DECODER * facts.width * facts.height
        self._budget = budget
        context = stream.codec_context
        # Each thread holds frames of its own.
        context.thread_count = 1
        pixels = max(budget // _DECODER, 1)
        context.options = {**context.options, "max_pixels": str(min(pixels, 2**31 - 1))}
        if self._left < 3 * facts.width * facts.height:
            self._over()

    def take_uniform(self, count: int) -> None:
        """Take frames at times evenly over the duration."""
        facts, base = self.facts, self.stream.time_base
        if facts.duration is None:
            raise ScoreError(
                "unknown-duration", "the header has no duration, so frames cannot be chosen by time"
            )
        count = min(count, facts.frames or count)
        step = facts.duration / 2 if count == 1 else facts.duration / (count - 1)
        times = [step] if count == 1 else [step * number for number in range(count)]
        coming = self._decoded()
        before: int | None = None
        for wanted in (time / base for time in times):
            if before is None or self._is_far(before, wanted):
                coming = self._sought(wanted, before)
            last = None
            for frame in coming:
                last = frame
                if frame.pts >= wanted and (before is None or frame.pts > before):
                    break
            else:
                self._take_last(last, wanted)
                return
            before = last.pts
            self._take(last)

    def take_key(self, count: int) -> None:
        """Take frames at key frames."""
        context = self.stream.codec_context
        for pts in _evenly(self._keys(), count) if count else ():
            context.skip_frame = "NONKEY"
            self.container.seek(pts, stream=self.stream)
            self._take(next(self._decoded(), None))
        if not count:
            context.skip_frame = "NONKEY"
            for frame in self._decoded():
                self._take(frame)
        if not self.taken:
            context.skip_frame = "DEFAULT"
            self._seek(0)
            self._take(next(self._decoded(), None))

    def _keys(self) -> list[int]:
        """Return the times of key frames, in the stream's time base; nothing is decoded."""
        if self.container.format.name.startswith("mov"):
            found = [entry.timestamp for entry in self.stream.index_entries if entry.is_keyframe]
            if found:
                return found
        packets = self.container.demux(self.stream)
        return [packet.pts for packet in packets if packet.is_keyframe and packet.pts is not None]

    def _decoded(self) -> Iterator[VideoFrame]:
        """Yield frames from the container's position on. Raises ScoreError after 20,000."""
        for number, frame in enumerate(self.container.decode(self.stream)):
            if number >= _MOST_DECODED:
                raise ScoreError(
                    "few-key-frames", f"{_MOST_DECODED:,} frames were decoded to reach one"
                )
            if frame.pts is not None:
                yield frame

    def _is_far(self, before: int, wanted: Fraction) -> bool:
        """Return whether seeking saves decoding."""
        index = self.stream.index_entries
        place = index.search_timestamp(int(wanted)) if len(index) else -1
        far: bool = (
            index[place].timestamp > before
            if place >= 0
            else (wanted - before) * self.stream.time_base > _NEAR
        )
        return far

    def _sought(self, wanted: Fraction, before: int | None) -> Iterator[VideoFrame]:
        """Yield frames, from a key frame that is not after the wanted time."""
        start = self.stream.start_time or 0
        for back in _LATE:
            if wanted <= start or not self._seek(int(wanted - back / self.stream.time_base)):
                break
            coming = self._decoded()
            first = next(coming, None)
            if first is not None and first.pts <= wanted:
                return chain((first,), coming)
        if before is not None or wanted > start:
            self._seek(start)
        return self._decoded()

    def _seek(self, pts: int) -> bool:
        """Seek backwards to a key frame; False if the file is not seekable."""
        import av

        try:
            self.container.seek(pts, stream=self.stream)
        except av.error.FFmpegError:
            return False
        return True

    def _take_last(self, last: VideoFrame | None, wanted: Fraction) -> None:
        """Take the last frame, if none is as late as wanted."""
        if last is None:
            self.taken += self.taken[-1:]
            return
        early = (wanted - last.pts) * self.stream.time_base
        allowed = max(_ENDS_EARLY, 10 / self.facts.fps) if self.facts.fps else _ENDS_EARLY
        if self.facts.exact and early > allowed:
            raise ScoreError(
                "truncated", f"frames end {float(early):.1f} seconds before the video should"
            )
        self._take(last)

    def _take(self, frame: VideoFrame | None) -> None:
        if frame is None:
            return
        if 3 * frame.width * frame.height > self._left:
            self._over()
        pixels = frame.to_ndarray(format="rgb24")
        made: InMemory = pixels if self._make is None else self._make(pixels)
        self._left -= made.nbytes
        self.taken.append(made)

    def _over(self) -> None:
        size = f"{self.facts.width} x {self.facts.height}"
        text = f"frames of {size} pixels would take more than {self._budget:,} bytes; ask for fewer"
        raise ScoreError("over-budget", text)


def _evenly(keys: list[int], count: int) -> list[int]:
    if len(keys) <= count:
        return keys
    if count == 1:
        return [keys[len(keys) // 2]]
    return [keys[number * (len(keys) - 1) // (count - 1)] for number in range(count)]
