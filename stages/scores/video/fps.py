"""How many frames a video shows in a second."""

from dataclasses import dataclass
from typing import ClassVar

from ..base import ScoreError
from .video_facts import VideoFacts
from .video_score import VideoScore


@dataclass(frozen=True, kw_only=True)
class Fps(VideoScore):
    """Frames per second of the video: the mean by its header, else the rate that FFmpeg takes it for.

    "unknown-fps" where there is neither. From 0 on. Source: PyAV's average_rate, guessed_rate.
    """

    name: ClassVar[str] = "fps"
    unit: ClassVar[str] = "frames/s"
    low: ClassVar[float | None] = 0

    def of(self, facts: VideoFacts) -> float:
        """Return the rate."""
        if facts.fps is None:
            raise ScoreError("unknown-fps", "the header tells no rate of frames")
        return round(float(facts.fps), 6)
