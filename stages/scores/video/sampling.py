"""Which frames of a video are looked at."""

from typing import Literal, NamedTuple

How = Literal["uniform", "key"]


class Sampling(NamedTuple):
    """A number of frames, "uniform" over the duration or evenly among the key frames; of these, 0 stands for all."""

    how: How = "uniform"
    frames: int = 3

    def checked(self, name: str) -> "Sampling":
        """Return it. Raises ValueError, in the name of a score, where there is no such sampling."""
        if self.frames < (self.how == "uniform"):
            least = "at least 1" if self.how == "uniform" else "at least 1, or 0 for all key frames"
            raise ValueError(f"{name}: frames={self.frames}; it has to be {least}")
        return self
