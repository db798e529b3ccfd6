"""Totals over shards: the numbers of ``wdsflow inspect``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import TypeVar

from wdsflow.scan.evidence import (
    CaptionFacts,
    FieldCount,
    ImageFacts,
    JsonKey,
    ShardEvidence,
    Tally,
)
from wdsflow.scan.layouts import SetLayout, layout_of
from wdsflow.scan.shapes import Shape
from wdsflow.scan.tallies import TALLIES

from ..report.as_json import attributes_of

_Facts = TypeVar("_Facts", FieldCount, ImageFacts, CaptionFacts)

# Captions that occur most often.
_MOST_CAPTIONS = 10


@dataclass(slots=True)
class Overview:
    """All shards together. Numbers are sums; examples and locations are the first ones."""

    shards: Sequence[ShardEvidence]
    layout: SetLayout
    # The most frequent first.
    fields: dict[str, FieldCount] = field(default_factory=dict)
    # field names of neighbouring members with one key.
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)
    json_keys: dict[str, JsonKey] = field(default_factory=dict)
    images: ImageFacts = field(default_factory=ImageFacts)
    captions: CaptionFacts = field(default_factory=CaptionFacts)
    # Name -> sum, shard of the first place.
    tallies: dict[str, tuple[Tally, str]] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Distinct keys, summed over shards."""
        return sum(shard.samples for shard in self.shards)

    @property
    def members(self) -> int:
        """Regular files in all shards."""
        return sum(shard.members for shard in self.shards)

    @property
    def size(self) -> int:
        """Bytes as stored, of the shards whose size is known."""
        return sum(shard.size or 0 for shard in self.shards)

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        fields = {
            name: attributes_of(item, "count bytes largest") for name, item in self.fields.items()
        }
        shapes = [{"fields": list(names), "count": count} for names, count in self.shapes.items()]
        json_keys = {}
        for name, key in self.json_keys.items():
            json_keys[name] = attributes_of(key, "count strings with_image example")
        return {
            "version": 1,
            **attributes_of(self, "samples members size"),
            "layout": _layout(self.layout),
            "fields": fields,
            "shapes": shapes,
            "json_keys": json_keys,
            "images": _images(self.images),
            "captions": _captions(self.captions),
            "tallies": _tallies(self.tallies),
            "shards": [_shard(shard) for shard in self.shards],
        }


def overview(shards: Sequence[ShardEvidence]) -> Overview:
    """Sum up the evidence of shards."""
    total = Overview(shards, layout_of(shards))
    shapes: Counter[tuple[str, ...]] = Counter()
    for shard in shards:
        for name, count in shard.fields.items():
            _add(total.fields.setdefault(name, FieldCount()), count)
        for name, key in shard.json_keys.items():
            total.json_keys.setdefault(name, JsonKey()).add(key)
        _add(total.images, shard.images)
        _add(total.captions, shard.captions)
        for run in (shard.runs.head, shard.runs.tail):
            if run is not None:
                shapes[_field_names(run.shape)] += 1
        for item in shard.runs.inner:
            shapes[_field_names(item.shape)] += item.count
        for name, tally in shard.tallies.items():
            sum_of_tallies, _ = total.tallies.setdefault(name, (Tally(), shard.url))
            sum_of_tallies.add(tally.key, tally.offset, tally.detail, tally.count)
    total.shapes = dict(shapes.most_common())
    total.fields = dict(sorted(total.fields.items(), key=lambda item: -item[1].count))
    total.json_keys = dict(
        sorted(total.json_keys.items(), key=lambda item: (-item[1].strings, -item[1].count))
    )
    total.tallies = dict(sorted(total.tallies.items(), key=lambda item: -item[1][0].count))
    return total


def most_frequent(counts: Mapping[str, int], most: int | None = None) -> dict[str, int]:
    """Return the counts, the most frequent first; at most ``most`` of them."""
    return dict(Counter(counts).most_common(most))


def _field_names(shape: Shape) -> tuple[str, ...]:
    return tuple(part.suffix.lower() for part in shape)


def _add(total: _Facts, more: _Facts) -> None:
    """Add the numbers of one shard; of largest ones the larger is kept."""
    for attribute in dataclass_fields(more):
        name = attribute.name
        value = getattr(more, name)
        if isinstance(value, dict):
            counts = getattr(total, name)
            for key, count in value.items():
                counts[key] = counts.get(key, 0) + count
        elif name in ("largest", "longest"):
            setattr(total, name, max(getattr(total, name), value))
        elif name != "ranks":
            setattr(total, name, getattr(total, name) + value)


def _layout(layout: SetLayout) -> dict[str, object]:
    return {"kind": layout.kind, "name": layout.name, "images": list(layout.images)}


def _images(images: ImageFacts) -> dict[str, object]:
    pixels = {str(power): count for power, count in sorted(images.megapixels.items())}
    return {
        **attributes_of(images, "count pixels largest"),
        "formats": most_frequent(images.formats),
        "modes": most_frequent(images.modes),
        "log2_pixels": pixels,
    }


def _captions(captions: CaptionFacts) -> dict[str, object]:
    return {
        **attributes_of(captions, "count characters longest"),
        "frequent": most_frequent(captions.frequent, _MOST_CAPTIONS),
    }


def _tallies(tallies: Mapping[str, tuple[Tally, str]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, (tally, shard) in tallies.items():
        values[name] = {
            "count": tally.count,
            "meaning": TALLIES.get(name, ""),
            "shard": shard,
            **attributes_of(tally, "key offset detail"),
        }
    return values


def _shard(shard: ShardEvidence) -> dict[str, object]:
    values = attributes_of(shard, "url size members samples error stop compression beyond")
    values["stop"] = shard.stop._asdict()
    return values
