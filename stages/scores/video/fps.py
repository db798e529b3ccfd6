"""The frame rate of a video."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import ScoreError
from .video_facts import VideoFacts
from .video_score import VideoScore


@dataclass(frozen=True, kw_only=True)
class Fps(VideoScore):
    """Frames per second of the video: the mean by its header, otherwise FFmpeg's guess.

    "unknown-fps" if there is neither. From 0 on. Source: PyAV's average_rate, guessed_rate.
    """

    name: ClassVar[str] = "fps"
    unit: ClassVar[str] = "frames/s"
    low: ClassVar[float | None] = 0

    def of(self, facts: VideoFacts) -> float:
        """Return the rate."""
        if facts.fps is None:
            raise ScoreError("unknown-fps", "the header has no frame rate")
        return round(float(facts.fps), 6)
