"""Results of the parts of the check, and their input."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    ``met`` is None if there is no goal, or if nothing could be measured.
    """

    name: str
    value: str
    goal: str = ""
    met: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class Setting:
    """The input of all parts.

    ``device``: "cpu" or "cuda:0". ``quick``: small sizes, whose figures mean nothing.

    ``seconds``: about how long each rate is measured. ``end``: when all must have ended, by
    ``time.monotonic``.
    """

    device: str
    # For shards and weights.
    folder: str
    quick: bool = False
    seconds: float = 8.0
    end: float = float("inf")

    @property
    def cuda(self) -> bool:
        """Whether there is a GPU to check."""
        return self.device.startswith("cuda")

    @property
    def remaining(self) -> float:
        """Seconds until all must have ended."""
        return self.end - time.monotonic()


class MissingRequirement(Exception):
    """A package that a part needs is not installed, or there is no GPU for it, or no time."""


def needs(*modules: str) -> None:
    """Raise MissingRequirement unless all modules can be imported."""
    import importlib.util

    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingRequirement(f"needs {', '.join(missing)}")
