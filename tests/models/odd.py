"""Custom scores, one for each base class, that return unusual values.

Some return the types of libraries, others something that is not a single value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wdsflow.stages.scores import BatchScore, DatasetScore, Score
from wdsflow.stages.scores.base import PixelScore, TextScore


def odd(gives: str) -> Any:
    """Return a value: 3 in some form, or none."""
    import torch

    forms: dict[str, Any] = {
        "int": 3, "numpy": np.float32(3), "numpy 0-d": np.array(3.0), "numpy 1": np.array([3.0]),
        "torch 0-d": torch.tensor(3.0, requires_grad=True), "torch half": torch.tensor([3.0], dtype=torch.bfloat16),
        "none": None, "nan": float("nan"), "inf": np.float32(np.inf), "pair": [1.0, 2.0], "array": np.array([1.0, 2.0]),
        "nested": [[3.0]], "dict": {"value": 3.0}, "flag": True, "text": "3", "empty": [],
    }  # fmt: skip
    return forms[gives]


@dataclass(frozen=True, kw_only=True)
class OddPlain(Score):
    """One for the sample."""

    name: ClassVar[str] = "odd_plain"
    tier: ClassVar[Any] = "text"

    gives: str

    def score(self, view: Any) -> Any:
        """Return it."""
        return odd(self.gives)


@dataclass(frozen=True, kw_only=True)
class OddPixels(PixelScore):
    """One for each image."""

    name: ClassVar[str] = "odd_pixels"

    gives: str

    def of(self, picture: Any) -> Any:
        """Return it."""
        return odd(self.gives)


@dataclass(frozen=True, kw_only=True)
class OddText(TextScore):
    """One for each caption."""

    name: ClassVar[str] = "odd_text"

    gives: str

    def of(self, text: str) -> Any:
        """Return it."""
        return odd(self.gives)


@dataclass(frozen=True, kw_only=True)
class OddDataset(DatasetScore):
    """One for each image; or it raises."""

    name: ClassVar[str] = "odd_dataset"
    tier: ClassVar[Any] = "pixels"
    subject: ClassVar[Any] = "image"

    gives: str

    def gather(self, view: Any) -> bytes:
        """Return nothing much."""
        return b"x" * len(view.image_names())

    def resolve(
        self, records: Any, folder: Any, *, memory: int = 0
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield it."""
        for shard, sample, _ in records:
            if self.gives == "raise":
                raise KeyError("weights")
            yield shard, sample, odd(self.gives)


@dataclass(frozen=True, kw_only=True)
class OddBatch(BatchScore):
    """One for each image, alone or in what holds a whole batch."""

    name: ClassVar[str] = "odd_batch"

    gives: str
    together: str = "list"

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Any:
        """Return it."""
        import torch

        count = len(batch)
        forms: dict[str, Any] = {
            "list": [odd(self.gives)] * count, "tuple": (odd(self.gives),) * count, "generator": (odd(self.gives) for _ in batch),
            "(n,)": np.full(count, 3.0), "(n, 1)": torch.full((count, 1), 3.0), "squeezed": np.full((count, 1), 3.0).squeeze(),
            "(n, 2)": np.full((count, 2), 3.0), "(1, n)": torch.full((1, count), 3.0), "none": None, "number": 3.0,
            "dict": dict.fromkeys(range(count), 3.0), "text": "3" * count, "few": [3.0] * (count - 1),
        }  # fmt: skip
        return forms[self.together]
