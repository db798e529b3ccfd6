"""Scores to write expressions about."""

from dataclasses import dataclass
from typing import Any, ClassVar


def score(name: str, kind: str, tier: str, **facts: object) -> Any:
    return type(name, (), {"name": name, "kind": kind, "tier": tier, **facts})


@dataclass(frozen=True, kw_only=True)
class NearDuplicate:
    name: ClassVar[str] = "near_duplicate"
    kind: ClassVar[str] = "boolean"
    tier: ClassVar[str] = "pixels"
    compares: ClassVar[frozenset[str]] = frozenset({"distance"})

    distance: int = 6
    among: str = "all"
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.distance < 0:
            raise ValueError(f"a distance cannot be negative: {self.distance}")


@dataclass(frozen=True, kw_only=True)
class JsonNumber:
    name: ClassVar[str] = "json_number"
    kind: ClassVar[str] = "number"
    tier: ClassVar[str] = "text"
    argument: ClassVar[str] = "path"

    path: str


@dataclass(frozen=True, kw_only=True)
class Has:
    name: ClassVar[str] = "has"
    kind: ClassVar[str] = "boolean"
    tier: ClassVar[str] = "header"
    argument: ClassVar[str] = "field"

    field: str


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    name: ClassVar[str] = "zero_shot"
    kind: ClassVar[str] = "number"
    tier: ClassVar[str] = "model"
    low: ClassVar[float] = 0
    high: ClassVar[float] = 1

    labels: tuple[str, ...] = ("a photograph",)
    exact: bool = False
    scale: float = 1.0


CATALOG: dict[str, Any] = {
    "width": score("width", "number", "header", low=1),
    "height": score("height", "number", "header", low=1),
    "bytes": score("bytes", "number", "header"),
    "aspect_ratio": score("aspect_ratio", "number", "header"),
    "key": score("key", "text", "header"),
    "caption": score("caption", "text", "text"),
    "words_in_caption": score("words_in_caption", "number", "text"),
    "language": score("language", "text", "text"),
    "has_url": score("has_url", "boolean", "text"),
    "blur": score("blur", "number", "pixels"),
    "brightness": score("brightness", "number", "pixels", low=0, high=1),
    "duplicate": score("duplicate", "boolean", "pixels", compares=frozenset()),
    "similarity": score("similarity", "number", "model", low=-1, high=1),
    "json_number": JsonNumber,
    "has": Has,
    "near_duplicate": NearDuplicate,
    "zero_shot": ZeroShot,
}
