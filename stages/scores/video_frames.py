"""Frames of videos as images.

They are reached by seeking, so that most of a long video is not decoded.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from .sample_fields import FieldReader, ScoreError
from .video_facts import VideoFacts, VideoStream, opened

if TYPE_CHECKING:
    import numpy as np
    from av.container import InputContainer
    from numpy.typing import NDArray

    # Height, width, 3.
    Frame = NDArray[np.uint8]

# PyAV's types allow None for times that an open video has.
VideoFrame = Any

SamplingKind = Literal["uniform", "key"]

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


class Sampling(NamedTuple):
    """How the frames of a video are chosen, and how many.

    "uniform" spreads them over the duration. Otherwise they are spread evenly among the key frames,
    and 0 stands for all key frames.
    """

    kind: SamplingKind = "uniform"
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


PrepareFrame = Callable[["Frame"], InMemory]


class Frames(list[InMemory]):
    """The frames of a video in order, or model inputs made from them.

    Unlike a list, it can be weakly referenced.
    """


def video_frames(
    reader: FieldReader,
    name: str,
    sampling: Sampling,
    budget: int,
    prepare: PrepareFrame | None = None,
) -> Frames:
    """Return frames of a field, RGB as of PyAV's ``to_image``. Never empty.

    ``prepare`` converts each frame as soon as it is decoded, so that only one of full size is in
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
        sampler = _FrameSampler(container, stream, facts, budget, prepare)
        if sampling.kind == "uniform":
            sampler.take_uniform(sampling.frames)
        else:
            sampler.take_key(sampling.frames)
    if not sampler.frames:
        raise ScoreError("truncated", "no frame could be decoded")
    return sampler.frames


class _FrameSampler:
    """Collects frames of an open video, within a budget."""

    def __init__(
        self,
        container: "InputContainer",
        stream: VideoStream,
        facts: VideoFacts,
        budget: int,
        prepare: PrepareFrame | None,
    ) -> None:
        self.container = container
        self.stream = stream
        self.facts = facts
        self.frames = Frames()
        self._prepare = prepare
        self._budget = budget
        # Bytes for further frames.
        self._remaining = budget - _DECODER * facts.width * facts.height
        context = stream.codec_context
        # Further threads would hold further frames.
        context.thread_count = 1
        pixels = max(budget // _DECODER, 1)
        context.options = {**context.options, "max_pixels": str(min(pixels, 2**31 - 1))}
        if self._remaining < 3 * facts.width * facts.height:
            raise self._over_budget()

    def take_uniform(self, count: int) -> None:
        """Take frames at times evenly over the duration."""
        facts = self.facts
        if facts.duration is None:
            raise ScoreError(
                "unknown-duration", "the header has no duration, so frames cannot be chosen by time"
            )
        count = min(count, facts.frames or count)
        frames = self._decoded()
        before: int | None = None
        for time in _even_times(facts.duration, count):
            pts = time / self.stream.time_base
            if before is None or self._is_far(before, pts):
                frames = self._frames_near(pts, before)
            last = None
            for frame in frames:
                last = frame
                if frame.pts >= pts and (before is None or frame.pts > before):
                    break
            else:
                self._take_last(last, pts)
                return
            before = last.pts
            self._take(last)

    def take_key(self, count: int) -> None:
        """Take frames at key frames."""
        context = self.stream.codec_context
        if count:
            for pts in _evenly(self._key_times(), count):
                context.skip_frame = "NONKEY"
                self.container.seek(pts, stream=self.stream)
                self._take(next(self._decoded(), None))
        else:
            context.skip_frame = "NONKEY"
            for frame in self._decoded():
                self._take(frame)
        if not self.frames:
            context.skip_frame = "DEFAULT"
            self._seek(0)
            self._take(next(self._decoded(), None))

    def _key_times(self) -> list[int]:
        """Return the times of key frames, in the stream's time base; nothing is decoded."""
        if self.container.format.name.startswith("mov"):
            times = [entry.timestamp for entry in self.stream.index_entries if entry.is_keyframe]
            if times:
                return times
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

    def _is_far(self, before: int, pts: Fraction) -> bool:
        """Return whether seeking saves decoding; ``before`` is the time of the latest frame."""
        index = self.stream.index_entries
        entry = index.search_timestamp(int(pts)) if len(index) else -1
        if entry >= 0:
            return bool(index[entry].timestamp > before)
        return bool((pts - before) * self.stream.time_base > _NEAR)

    def _frames_near(self, pts: Fraction, before: int | None) -> Iterator[VideoFrame]:
        """Yield frames, from a key frame that is not after a time."""
        start = self.stream.start_time or 0
        for back in _LATE:
            if pts <= start or not self._seek(int(pts - back / self.stream.time_base)):
                break
            frames = self._decoded()
            first = next(frames, None)
            if first is not None and first.pts <= pts:
                return chain((first,), frames)
        if before is not None or pts > start:
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

    def _take_last(self, last: VideoFrame | None, pts: Fraction) -> None:
        """Take the last frame, if none is as late as a time."""
        if last is None:
            self.frames += self.frames[-1:]
            return
        early = (pts - last.pts) * self.stream.time_base
        allowed = Fraction(_ENDS_EARLY)
        if self.facts.fps:
            allowed = max(allowed, 10 / self.facts.fps)
        if self.facts.exact and early > allowed:
            raise ScoreError(
                "truncated", f"frames end {float(early):.1f} seconds before the video should"
            )
        self._take(last)

    def _take(self, frame: VideoFrame | None) -> None:
        if frame is None:
            return
        if 3 * frame.width * frame.height > self._remaining:
            raise self._over_budget()
        pixels = frame.to_ndarray(format="rgb24")
        prepared: InMemory = pixels if self._prepare is None else self._prepare(pixels)
        self._remaining -= prepared.nbytes
        self.frames.append(prepared)

    def _over_budget(self) -> ScoreError:
        size = f"{self.facts.width} x {self.facts.height}"
        text = f"frames of {size} pixels would take more than {self._budget:,} bytes; ask for fewer"
        return ScoreError("over-budget", text)


def _even_times(duration: Fraction, count: int) -> list[Fraction]:
    """Return times from the start to the end; a single one is in the middle."""
    if count == 1:
        return [duration / 2]
    step = duration / (count - 1)
    return [step * number for number in range(count)]


def _evenly(keys: list[int], count: int) -> list[int]:
    if len(keys) <= count:
        return keys
    if count == 1:
        return [keys[len(keys) // 2]]
    return [keys[number * (len(keys) - 1) // (count - 1)] for number in range(count)]
