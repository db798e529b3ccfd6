"""Scores that models compute: what a decoder prepares for a model, and the use of the model's outputs.

A ``Model`` is a value that names what to load. It is loaded once for each device, in a separate process or in the
calling one, and then runs bounded batches of items of any samples. A ``ModelScore`` requests items of a sample and
computes its value from the outputs. Scores with equal models share one, and items of one sample with equal keys run
once for all of them. A request may depend on another's output: text is detected once, for the score of its area and for
the score that reads it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from ..base import Score, Tier, Value, versions_of

if TYPE_CHECKING:
    from ..sample_view import View

Item = Any  # pickles well: an array, bytes, a string, a tuple of these
Output = Any  # the same: usually an array of float32 or a number
Precision = Literal["fp32", "bf16", "fp16"]


class ModelSource(NamedTuple):
    """The origin of a model that is not on this machine, and how a score names the same model in a folder."""

    repository: str = ""  # of the Hugging Face hub, "org/name"
    revision: str = ""
    folder: str = ""  # "model='FOLDER'"
    url: str = ""  # of a file, where it is in no repository


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """A model that is loaded once for each device. Picklable, hashable; equal if the same would be loaded.

    Only its fields affect the result of ``run``, not globals, because processes may be spawned. ``packages``: the
    distributions whose versions affect outputs.
    """

    kind: ClassVar[str]  # for messages and for ceilings: "open_clip image"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    on_cpu: ClassVar[bool] = True  # whether an item that does not fit on the device may be run on the CPU
    tries_on_cpu: ClassVar[bool] = True  # whether the largest item is tried if the device is the CPU

    @abstractmethod
    def load(self, device: str) -> Any:
        """Return the input of ``run``, on a torch device ("cpu", "cuda:1"). Raises the errors of loading."""

    @abstractmethod
    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an output for each item, in order, off the device. Called in inference mode.

        An output must not depend on the other items of the batch, except for rounding.
        """

    def called(self) -> str:
        """Return its name for messages."""
        return self.kind

    def fetched(self) -> ModelSource | None:
        """Return its origin, if it is not on this machine; None if nothing is fetched."""
        return None

    def cost(self, item: Item) -> int:
        """Return the size of an item before padding: pixels, tokens. A batch costs its longest times its length."""
        return 1

    def largest(self) -> Item | None:
        """Return an item of the largest cost there can be, to try before the first shard; None if none is known."""
        return None

    def facts(self) -> Any:
        """Return its facts for decoders, for ``recall``; called in the process that loaded it."""
        return None

    def recall(self, facts: Any) -> None:  # noqa: B027 - most have nothing to keep
        """Take the ``facts`` of another process: decoders need not import what the model imports."""

    def identity(self) -> dict[str, Any]:
        """Return what affects outputs: kind, settings, hashes of weights, versions of libraries."""
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"kind": self.kind, "settings": settings, "versions": versions_of(*self.packages)}


class Request(NamedTuple):
    """An item for a model."""

    model: Model
    key: Hashable  # of the item among those of its sample and model: ("jpg", False), a caption
    make: Callable[..., Item]  # called once for equal keys of a sample, in the decoder; may raise ScoreError
    after: "Request | None" = None  # request that must run first; ``make`` is called with its output


@dataclass(frozen=True, kw_only=True)
class ModelScore(Score):
    """A score computed from a model's outputs. ``precision`` and the like are settings of the score."""

    tier: ClassVar[Tier] = "model"
    gpus: ClassVar[float] = 0.25

    @abstractmethod
    def requests(self, view: "View") -> list[Request]:
        """Return the requests for one sample. Raises ScoreError if it cannot be computed."""

    @abstractmethod
    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the value by the outputs, one for each request, in their order. Raises ScoreError."""

    @abstractmethod
    def models(self) -> tuple[Model, ...]:
        """Return the models of the score; they are loaded and tried before the first sample."""

    def identity(self) -> dict[str, Any]:
        """Return what affects a value, the models included."""
        return {**super().identity(), "models": [model.identity() for model in self.models()]}

    def score(self, *_: Any, **__: Any) -> Any:
        """Raise TypeError: a model works on batches."""
        raise TypeError(f"{self.name} is computed in batches: call requests, run them, then value")
