"""Models, and where they come from.

A model describes what to load, and how it runs on a batch of items.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

from ...base import ClassFacts
from ..base import versions_of

# Picklable: an array, bytes, a string, a tuple of these.
Item = Any
# Picklable: usually an array of float32 or a number.
Output = Any
# The result of ``load``: a network, with all that ``run`` needs.
Loaded = Any
# Of one kind of models; picklable.
Facts = Any


class ModelSource(NamedTuple):
    """The origin of a model that is not on this machine.

    It also holds the settings that name the same model in a folder.
    """

    # Of the Hugging Face hub, "org/name".
    repository: str
    revision: str = ""
    # "model='FOLDER'".
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Model(ClassFacts):
    """A model that is loaded once for each device.

    Picklable and hashable. Two models are equal if the same would be loaded.

    ``run`` must not depend on globals, only on the fields, because processes may be spawned.
    ``packages``: the distributions whose versions affect outputs.
    """

    # For messages and for ceilings: "open_clip image".
    kind: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    # Whether the largest item is tried if the device is the CPU.
    tries_on_cpu: ClassVar[bool] = True

    @abstractmethod
    def load(self, device: str) -> Loaded:
        """Load the model on a torch device ("cpu", "cuda:1"), and return the input of ``run``.

        Raises the errors of loading.
        """

    @abstractmethod
    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        """Return an output for each item, in order, off the device. Called in inference mode.

        An output must not depend on the other items of the batch, except for rounding.
        """

    def display_name(self) -> str:
        """Return its name for messages."""
        return self.kind

    def download_source(self) -> ModelSource | None:
        """Return the origin of a model that is not on this machine.

        None if nothing is downloaded.
        """
        return None

    def cost(self, item: Item) -> int:
        """Return the size of an item before padding, such as its pixels or tokens.

        The cost of a batch is that of its largest item times the number of items.
        """
        return 1

    def largest(self) -> Item | None:
        """Return an item of the largest possible cost, to try before the first shard.

        None if none is known.
        """
        return None

    def facts(self) -> Facts:
        """Return the facts that decoders pass to ``accept_facts``.

        Called in the process that loaded the model.
        """
        return None

    def accept_facts(self, facts: Facts) -> None:
        """Accept the ``facts`` of another process.

        Decoders then need not import the model's libraries.
        """

    def identity(self) -> dict[str, object]:
        """Return everything that outputs depend on.

        That is the model's kind and settings, hashes of weights, and versions of libraries.
        """
        settings = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"kind": self.kind, "settings": settings, "versions": versions_of(*self.packages)}
