"""Scores that models compute: what a decoder prepares for a model, and what becomes of the model's outputs.

A ``Model`` is a value that says what to load; it is loaded once for each device, in a process of its own or in the
one that asks, and then runs bounded batches of items of any samples. A ``ModelScore`` asks for items of a sample to be
run and makes its value of the outputs. Scores whose models are equal share one, and items of one sample with equal keys
are run once for all of them. A request may be for what is made of another's output: text is found once, for the score
of its area and for that which reads it.
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
    """What is loaded once for each device. Picklable, hashable; equal where the same would be loaded.

    Its fields are all that decides what ``run`` returns; nothing comes from globals, as processes may be spawned.
    ``packages``: the distributions whose versions decide outputs.
    """

    kind: ClassVar[str]  # for people and for ceilings: "open_clip image"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    on_cpu: ClassVar[bool] = True  # whether an item that does not fit on the device may be run on the CPU
    tries_on_cpu: ClassVar[bool] = True  # whether the largest item is tried where the device is the CPU

    @abstractmethod
    def load(self, device: str) -> Any:
        """Return whatever ``run`` needs, on a torch device ("cpu", "cuda:1"). Raises what loading raises."""

    @abstractmethod
    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an output for each item, in order, off the device. Called in inference mode.

        An output must not depend on the other items of the batch, but for rounding.
        """

    def called(self) -> str:
        """Return what people know it by, for messages."""
        return self.kind

    def fetched(self) -> ModelSource | None:
        """Return where it comes from, if it is not on this machine; None if nothing is fetched."""
        return None

    def cost(self, item: Item) -> int:
        """Return the size of an item before padding: pixels, tokens. A batch costs its longest times its length."""
        return 1

    def largest(self) -> Item | None:
        """Return an item of the largest cost there can be, to try before the first shard; None if none is known."""
        return None

    def facts(self) -> Any:
        """Return what decoders have to know of it, for ``recall``; called where it is loaded."""
        return None

    def recall(self, facts: Any) -> None:  # noqa: B027 - most have nothing to keep
        """Take what ``facts`` returned in another process: whoever prepares items need not import what it imports."""

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs: kind, settings, hashes of weights, versions of libraries."""
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"kind": self.kind, "settings": settings, "versions": versions_of(*self.packages)}


class Request(NamedTuple):
    """An item that a model is to be run on."""

    model: Model
    key: Hashable  # of the item among those of its sample and model: ("jpg", False), a caption
    make: Callable[..., Item]  # called once for equal keys of a sample, in the decoder; may raise ScoreError
    after: "Request | None" = None  # what has to be run first; ``make`` is called with its output


@dataclass(frozen=True, kw_only=True)
class ModelScore(Score):
    """A score made of a model's outputs. ``precision`` and the like are settings of the score that asks."""

    tier: ClassVar[Tier] = "model"
    gpus: ClassVar[float] = 0.25

    @abstractmethod
    def requests(self, view: "View") -> list[Request]:
        """Return what is to be run for one sample. Raises ScoreError if it cannot be computed."""

    @abstractmethod
    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the value by the outputs, one for each request, in their order. Raises ScoreError."""

    @abstractmethod
    def models(self) -> tuple[Model, ...]:
        """Return the models that are asked, known before the first sample: they are loaded and tried first."""

    def identity(self) -> dict[str, Any]:
        """Return what decides a value, the models included."""
        return {**super().identity(), "models": [model.identity() for model in self.models()]}

    def score(self, *_: Any, **__: Any) -> Any:
        """Raise TypeError: a model works on batches."""
        raise TypeError(f"{self.name} is computed in batches: call requests, run them, then value")
