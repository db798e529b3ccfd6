"""Custom scores for tests that start processes.

The processes find them by entry points, as they find a user's scores.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tests.distributions import write_distribution
from wdsflow.stages.scores import BatchScore
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore, Request

_SCORES = {
    "letters": "tests.models.own:Letters",
    "brittle": "tests.models.own:Brittle",
    "sized": "tests.models.own:Sized",
    "brightest": "tests.models.own:Brightest",
    "vowels_of_upper": "tests.models.own:VowelsOfUpper",
    "faulty": "tests.models.faulty:Faulty",
    "faulty_batch": "tests.models.faulty:FaultyBatch",
    "faulty_plain": "tests.models.faulty:FaultyPlain",
    "odd_plain": "tests.models.odd:OddPlain",
    "odd_pixels": "tests.models.odd:OddPixels",
    "odd_text": "tests.models.odd:OddText",
    "odd_dataset": "tests.models.odd:OddDataset",
    "odd_batch": "tests.models.odd:OddBatch",
    "slow_text": "tests.models.slow:SlowText",
    "slow_batch": "tests.models.slow:SlowBatch",
}


def install(folder: Path, monkeypatch: Any) -> None:
    """Let the scores of this module be found, here and in processes that are started."""
    describe(folder)
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(root), *sys.path]))
    monkeypatch.syspath_prepend(str(folder))


def describe(folder: Path) -> None:
    """Write what makes them an installed package where ``folder`` is on the path."""
    write_distribution(folder, "own-scores", {"wdsflow.scores": _SCORES})


@dataclass(frozen=True, kw_only=True)
class Letters(BatchScore):
    """Letters of a caption, counted by a model."""

    name: ClassVar[str] = "letters"
    inputs: ClassVar[Any] = "caption"

    times: int = 1

    def load(self, device: str) -> Any:
        """Count the processes that load."""
        folder = os.environ.get("LOADED")
        if folder:
            (Path(folder) / str(os.getpid())).touch()
        return self.times

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Count."""
        return [loaded * sum(letter.isalpha() for letter in text) for text in batch]


@dataclass(frozen=True, kw_only=True)
class Paced(BatchScore):
    """The id of the process that runs.

    The process that created the file ``SLOW`` takes 20 times as long as the others.
    """

    name: ClassVar[str] = "paced"
    inputs: ClassVar[Any] = "caption"

    def load(self, device: str) -> Any:
        """Be the slow one if no other is."""
        try:
            with open(os.environ["SLOW"], "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return 0.005
        return 0.1

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Wait."""
        time.sleep(loaded)
        return [os.getpid()] * len(batch)


@dataclass(frozen=True, kw_only=True)
class Starts(BatchScore):
    """Starts a program in a session of its own, and gives its number."""

    name: ClassVar[str] = "starts"
    inputs: ClassVar[Any] = "caption"

    def load(self, device: str) -> Any:
        """Start it."""
        return subprocess.Popen(["sleep", "600"], start_new_session=True).pid

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Give its number."""
        return [loaded] * len(batch)


@dataclass(frozen=True, kw_only=True)
class Brittle(BatchScore):
    """Counts letters, like ``Letters``, but can be made to fail.

    It runs out of memory above ``most`` characters a batch. At a given word it raises an error or
    ends its process.
    """

    name: ClassVar[str] = "brittle"
    inputs: ClassVar[Any] = "caption"

    most: int = 1 << 30
    fails: str = ""
    kills: str = ""
    poisons: str = ""
    leaves: str = ""

    def load(self, device: str) -> Any:
        """Load nothing, or fail at that."""
        if self.fails == "load":
            raise ValueError("no weights")

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Count, or not."""
        import torch

        if len(batch) * max(len(text) for text in batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        for text in batch:
            if self.fails and self.fails in text:
                raise ValueError(f"cannot read {text!r}")
            if self.poisons and self.poisons in text:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if self.fails == "count":
                return [1]
            if self.leaves and self.leaves in text:
                sys.exit("usage: brittle")
            if self.kills and self.kills in text:
                os.kill(os.getpid(), signal.SIGKILL)
        return [sum(letter.isalpha() for letter in text) for text in batch]


@dataclass(frozen=True, kw_only=True)
class Brightest(BatchScore):
    """The brightest level of an image."""

    name: ClassVar[str] = "brightest"

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Look."""
        return [int(picture.max()) for picture in batch]


@dataclass(frozen=True, kw_only=True)
class WidthAndWords(BatchScore):
    """The width of an image, and the words of a caption after the point."""

    name: ClassVar[str] = "width_and_words"
    inputs: ClassVar[Any] = "pair"
    revision: ClassVar[int] = 7

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[float]:
        """Look at both."""
        return [picture.shape[1] + len(text.split()) / 10 for picture, text in batch]


@dataclass(frozen=True, kw_only=True)
class KilledOnce(Letters):
    """The length of a caption or of a batch, by a process that is killed.

    ``at`` says when: at the load, or at a caption "unlucky". It is killed ``times`` times at most.
    """

    name: ClassVar[str] = "killed_once"

    mark: str
    at: str = "unlucky"
    times: int = 2
    counts_batch: bool = False

    def load(self, device: str) -> Any:
        """Be killed the first time."""
        if self.at == "load":
            self._killed(self.times)

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Be killed, or count."""
        if "unlucky" in batch:
            self._killed(self.times)
        return [len(batch if self.counts_batch else text) for text in batch]

    def _killed(self, times: int) -> None:
        with open(self.mark, "ab") as file:
            if file.tell() < times:
                file.write(b"x")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class LoadsAtSecond(Letters):
    """Letters, by a model for which there is memory at the second load only."""

    name: ClassVar[str] = "loads_at_second"
    loads: ClassVar[list[int]] = []

    def load(self, device: str) -> Any:
        """Load at the second time."""
        self.loads.append(1)
        if len(self.loads) != 2:
            import torch

            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.times


@dataclass(frozen=True, kw_only=True)
class LargestText(Model):
    """The length of a text of at most 50 characters.

    In a batch each text takes a MiB, and ``most`` characters fit.
    """

    kind: ClassVar[str] = "sized"

    most: int

    def load(self, device: str) -> Any:
        """Load nothing."""

    def run(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Take memory, and measure."""
        if len(batch) * max(map(len, batch)) > self.most:
            raise MemoryError
        taken = [bytearray(b"x") * (1 << 20) for _ in batch]
        return [len(text) for text, _ in zip(batch, taken, strict=True)]

    def cost(self, item: Any) -> int:
        """Return the characters."""
        return len(item)

    def largest(self) -> str:
        """Return the longest text."""
        return "x" * 50


@dataclass(frozen=True, kw_only=True)
class Unsendable(LargestText):
    """Its outputs can be sent to no other process."""

    def run(self, loaded: Any, batch: Sequence[Any]) -> Sequence[Any]:
        """Return functions."""
        return [lambda: len(loaded)] * len(batch)


@dataclass(frozen=True, kw_only=True)
class Sized(ModelScore):
    """The length of a caption, by ``LargestText``."""

    name: ClassVar[str] = "sized"

    most: int = 1000

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        return (LargestText(most=self.most),)

    def requests(self, view: Any) -> list[Request]:
        """Ask for each caption."""
        return [Request(self.models()[0], text, partial(str, text)) for text in view.captions()]

    def value(self, view: Any, outputs: Sequence[Any]) -> Any:
        """Return the first."""
        return outputs[0]


@dataclass(frozen=True, kw_only=True)
class Upper(Model):
    """A text in capitals; "unfit" cannot be written so."""

    kind: ClassVar[str] = "upper"

    def load(self, device: str) -> Any:
        """Load nothing."""

    def run(self, loaded: Any, batch: Sequence[Any]) -> Sequence[str]:
        """Write."""
        if "unfit" in batch:
            raise ValueError("no capitals")
        return [text.upper() for text in batch]

    def cost(self, item: Any) -> int:
        """Return the characters."""
        return len(item)


@dataclass(frozen=True, kw_only=True)
class CapitalVowels(Upper):
    """The number of vowels in capitals."""

    kind: ClassVar[str] = "capital vowels"

    def run(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:  # type: ignore[override]
        """Count."""
        return [sum(text.count(each) for each in "AEIOU") for text in batch]


@dataclass(frozen=True, kw_only=True)
class VowelsOfUpper(ModelScore):
    """The vowels of a caption, by one model whose output is the item of another."""

    name: ClassVar[str] = "vowels_of_upper"

    def models(self) -> tuple[Model, ...]:
        """Return both."""
        return (Upper(), CapitalVowels())

    def requests(self, view: Any) -> list[Request]:
        """Ask for the vowels of what the first model writes."""
        first, second = self.models()
        return [
            Request(second, text, str, after=Request(first, text, partial(str, text)))
            for text in view.captions()
        ]

    def value(self, view: Any, outputs: Sequence[Any]) -> Any:
        """Return the first."""
        return outputs[0]
