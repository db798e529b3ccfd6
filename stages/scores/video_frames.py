"""Frames of videos as images: sought, so that hours of video cost no more than what lies between frames."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from .sample_fields import FieldReader, ScoreError
from .videos import VideoFacts, facts_of, opened, video_stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Frame = NDArray[np.uint8]  # height, width, 3

How = Literal["uniform", "key"]


class Sampling(NamedTuple):
    """A number of frames, "uniform" over the duration or evenly among the key frames; of these, 0 stands for all."""

    how: How = "uniform"
    frames: int = 3

    def checked(self, name: str) -> "Sampling":
        """Return it. Raises ValueError, in the name of a score, if there is no such sampling."""
        if self.frames < (self.how == "uniform"):
            least = "at least 1" if self.how == "uniform" else "at least 1, or 0 for all key frames"
            raise ValueError(f"{name}: frames={self.frames}; it has to be {least}")
        return self


class Prepares(Protocol):
    """What makes something of a picture; equal where it makes the same."""

    def of(self, pixels: Any) -> Any:
        """Return an array for a picture (height, width, 3)."""


class MadeFrames(NamedTuple):
    """What is made of each of some frames."""

    sampling: Sampling
    prepare: Prepares


_MOST_DECODED = 20_000  # frames from a key frame on; a video with fewer key frames is hostile, or no video to sample
_DECODER = 12  # bytes a pixel: a decoder's reference frames, its output, the frame in RGB
_NEAR = 5  # seconds that are decoded rather than sought, where no index tells of key frames
_LATE = (0, 1, 10)  # seconds to go back where seeking ends after what was sought
_ENDS_EARLY = 2  # seconds that a stream may end before its header says


Make = Callable[["Frame"], Any]


class Frames(list[Any]):
    """The frames of a video, in order, or what was made of each."""


def video_frames(reader: FieldReader, name: str, sampling: Sampling, budget: int, make: Make | None = None) -> Frames:
    """Return frames of a field, RGB as PyAV's ``to_image`` gives them. Never empty.

    ``make`` turns each into an array as soon as it is decoded: one frame of full size is held at a time.

    "uniform": for ``frames`` times evenly over the duration, both ends among them (one: the middle), the first frame
    that is not before it, but a later one for each; the last frame where there is none. Fewer where the video has
    fewer frames. Source: Data-Juicer's ``extract_video_frames_uniformly``. "key": frames at key frames, ``frames`` of
    them evenly chosen, the middle one for 1, all for 0; the first frame where there is none.

    Raises ScoreError: "over-budget" if the frames would take more than ``budget`` bytes, "truncated", "undecodable".
    """
    with opened(reader, name) as container:
        stream = video_stream(container)
        facts = facts_of(container, stream, reader.fields.size(name))
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

    def __init__(self, container: Any, stream: Any, facts: VideoFacts, budget: int, make: Make | None) -> None:
        self.container, self.stream, self.facts = container, stream, facts
        self.taken = Frames()
        self._make = make
        self._left = budget - _DECODER * facts.width * facts.height
        self._budget = budget
        context = stream.codec_context
        context.thread_count = 1  # each further one holds frames of its own
        pixels = max(budget // _DECODER, 1)
        context.options = {**context.options, "max_pixels": str(min(pixels, 2**31 - 1))}
        if self._left < 3 * facts.width * facts.height:
            self._over()

    def take_uniform(self, count: int) -> None:
        """Take frames at times evenly over the duration."""
        facts, base = self.facts, self.stream.time_base
        if facts.duration is None:
            raise ScoreError("unknown-duration", "the header has no duration, so frames cannot be chosen by time")
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
        if count:
            keys = self._keys()
            chosen = _evenly(keys, count)
            for pts in chosen:
                context.skip_frame = "NONKEY"
                self.container.seek(pts, stream=self.stream)
                self._take(next(self._decoded(), None))
        else:
            context.skip_frame = "NONKEY"
            for frame in self._decoded():
                self._take(frame)
        if not self.taken:
            context.skip_frame = "DEFAULT"
            self._seek(0)
            self._take(next(self._decoded(), None))

    def _keys(self) -> list[int]:
        """Return where key frames are, in the stream's time base; nothing is decoded."""
        if self.container.format.name.startswith("mov"):
            found = [entry.timestamp for entry in self.stream.index_entries if entry.is_keyframe]
            if found:
                return found
        packets = self.container.demux(self.stream)
        return [packet.pts for packet in packets if packet.is_keyframe and packet.pts is not None]

    def _decoded(self) -> Iterator[Any]:
        """Yield frames from where the container stands on. Raises ScoreError if there are far too many."""
        for number, frame in enumerate(self.container.decode(self.stream)):
            if number >= _MOST_DECODED:
                raise ScoreError("few-key-frames", f"{_MOST_DECODED:,} frames were decoded to reach one")
            if frame.pts is not None:
                yield frame

    def _is_far(self, before: int, wanted: Fraction) -> bool:
        """Return whether seeking saves decoding."""
        index = self.stream.index_entries
        place = index.search_timestamp(int(wanted)) if len(index) else -1
        far: bool = index[place].timestamp > before if place >= 0 else (wanted - before) * self.stream.time_base > _NEAR
        return far

    def _sought(self, wanted: Fraction, before: int | None) -> Iterator[Any]:
        """Yield frames from a key frame on that is not after what is wanted."""
        start = self.stream.start_time or 0
        for back in _LATE:
            if wanted <= start or not self._seek(int(wanted - back / self.stream.time_base)):
                break
            coming = self._decoded()
            first = next(coming, None)
            if first is not None and first.pts <= wanted:
                return _chain(first, coming)
        if before is not None or wanted > start:
            self._seek(start)
        return self._decoded()

    def _seek(self, pts: int) -> bool:
        """Seek backwards to a key frame; False if this file cannot be sought in."""
        import av

        try:
            self.container.seek(pts, stream=self.stream)
        except av.error.FFmpegError:
            return False
        return True

    def _take_last(self, last: Any, wanted: Fraction) -> None:
        """Take the last frame of all, as none is as late as was wanted."""
        if last is None:
            if self.taken:
                self.taken.append(self.taken[-1])
            return
        early = (wanted - last.pts) * self.stream.time_base
        allowed = max(_ENDS_EARLY, 10 / self.facts.fps) if self.facts.fps else _ENDS_EARLY
        if self.facts.exact and early > allowed:
            raise ScoreError("truncated", f"frames end {float(early):.1f} seconds before the video should")
        self._take(last)

    def _take(self, frame: Any) -> None:
        if frame is None:
            return
        size = 3 * frame.width * frame.height
        if size > self._left:
            self._over()
        made = frame.to_ndarray(format="rgb24")
        if self._make is not None:
            made = self._make(made)
            size = made.nbytes
        self._left -= size
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


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
