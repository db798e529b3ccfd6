"""Keep samples that have all that is needed."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.shards.field_names import alternatives

from .base import Dropped, Sample, SampleStage


@dataclass(frozen=True)
class HasFields(SampleStage):
    """Keep samples that have all of the fields; others are dropped, counted by the first that is missing.

    Each entry may name alternatives: ``HasFields(("jpg;png;jpeg;webp", "txt"))`` keeps what OpenCLIP keeps.

    >>> stage = HasFields.of("jpg;png", "txt")
    >>> [sample["__key__"] for sample in stage([{"__key__": "a", "png": b"", "txt": b""}, {"__key__": "b", "png": b""}])]
    ['a']
    >>> stage.counts.dropped
    Counter({'no-txt': 1})
    """

    name: ClassVar[str] = "has_fields"

    fields: str | tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = (self.fields,) if isinstance(self.fields, str) else tuple(self.fields)
        if not given:
            raise ValueError("HasFields needs at least one field, for instance HasFields('txt')")
        object.__setattr__(self, "fields", tuple(";".join(alternatives(entry)) for entry in given))

    @classmethod
    def of(cls, *fields: str) -> "HasFields":
        """Name the fields one by one."""
        return cls(fields)

    @property
    def reads(self) -> frozenset[str]:
        """All of the fields."""
        return frozenset(self.fields)

    def apply(self, sample: Sample) -> Sample:
        """Let a sample go that lacks a field."""
        for entry in self.fields:
            if not any(name in sample for name in entry.split(";")):
                raise Dropped(f"no-{entry}")
        return sample
