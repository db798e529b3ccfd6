"""Remove fields."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from wdsflow.shards.field_names import alternatives

from .base import Sample, SampleStage, StageError
from .fields import listed


@dataclass(frozen=True)
class Drop(SampleStage):
    """Remove fields, so that nothing later decodes them or holds them in memory.

    ``fields`` are names joined by semicolons, or a tuple of names. A field that is not there is no matter, unless
    ``on_missing`` is "raise" ("no-json").

    >>> list(Drop("json;thumb")([{"__key__": "a", "txt": b"a cat", "json": b"{}"}]))
    [{'__key__': 'a', 'txt': b'a cat'}]
    """

    name: ClassVar[str] = "drop"

    fields: str | tuple[str, ...]
    on_missing: Literal["keep", "raise"] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fields", alternatives(self.fields))

    @property
    def reads(self) -> frozenset[str]:
        """Nothing, unless a missing field is an error."""
        return frozenset(self.fields) if self.on_missing == "raise" else frozenset()

    @property
    def removes(self) -> frozenset[str]:
        """The fields."""
        return frozenset(self.fields)

    def apply(self, sample: Sample) -> Sample:
        """Remove the fields of one sample."""
        for field in self.fields:
            if field in sample:
                del sample[field]
            elif self.on_missing == "raise":
                raise StageError(f"no-{field}", f"it has no field {field!r}; its fields: {listed(sample)}")
        return sample
