"""What makes the chunks of an epoch: threads, or processes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from wdsflow.training.sample_tasks import Chunk
from wdsflow.training.stalls.hanging import BusyDecoder


class Decoders(ABC):
    """The decoders of one epoch. Like the workers of a DataLoader, they begin and end with it.

    ``most_chunks``: that may be in progress.
    """

    most_chunks: int

    @abstractmethod
    def send(self, chunk: Chunk) -> None:
        """Give a chunk to a decoder, which sets ``chunk.done`` at the end."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait at most so many seconds until some chunk is done. Raises DecoderError."""

    @abstractmethod
    def busy(self, seconds: float) -> Sequence[BusyDecoder]:
        """Return the decoders that have been at one sample for ``seconds``. Thread-safe."""

    @abstractmethod
    def cpu_seconds(self) -> float:
        """Return the seconds of processor time that they have taken. Thread-safe."""

    @abstractmethod
    def kill(self) -> None:
        """Kill what can be killed. Thread-safe."""

    @abstractmethod
    def close(self) -> None:
        """End them; chunks in progress are given up."""
