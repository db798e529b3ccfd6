"""Which frames of a video are looked at."""

from typing import Any, Literal, NamedTuple, Protocol

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
