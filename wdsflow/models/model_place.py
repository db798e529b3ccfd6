"""Where models run, as a value that travels."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wdsflow.stages.scores.model.model_score import Model


class ModelError(ValueError):
    """A model cannot be loaded, or cannot run; written to be read. ``blames`` names a model that no shard could use."""

    blames = ""


class PreparedModels(NamedTuple):
    """What is known of models that have been loaded: a line for people about each, and what decoders have to know."""

    lines: tuple[str, ...]
    facts: tuple[tuple[Model, Any], ...]


@dataclass(frozen=True)
class ModelPlace:
    """Processes that run models, or none: then whoever asks loads them itself.

    ``addresses``: of the processes, one a device. ``key``: what they know their own by. ``device`` and ``memory``: where
    models go otherwise, and how much of a GPU they may take ("8GiB", "80%", None for all that is free). ``facts``: what decoders have to know of models.
    ``apart``: whoever asks, and has no address, starts a process for them.
    """

    addresses: tuple[str, ...] = ()
    key: bytes = b""
    device: str = "auto"
    memory: str | None = None
    facts: tuple[tuple[Model, Any], ...] = field(default=(), compare=False)
    apart: bool = False

    def address(self, number: int) -> str | None:
        """Return the process for a shard of that number."""
        return self.addresses[number % len(self.addresses)] if self.addresses else None
