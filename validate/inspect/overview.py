"""Totals over shards: the numbers of ``wdsflow inspect``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from wdsflow.scan.evidence import FieldCount, JsonKey, Shape, ShardEvidence, Tally
from wdsflow.scan.layouts import SetLayout, layout_of
from wdsflow.scan.tallies import TALLIES


@dataclass(slots=True)
class Overview:
    """All shards together. Numbers are sums; examples and places are the first found."""

    shards: Sequence[ShardEvidence]
    layout: SetLayout
    fields: dict[str, FieldCount] = field(default_factory=dict)  # the most frequent first
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)  # field names of neighbouring members with one key
    json_keys: dict[str, JsonKey] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)  # of images, by magic bytes
    modes: Counter[str] = field(default_factory=Counter)
    megapixels: Counter[int] = field(default_factory=Counter)  # floor(log2(pixels)) -> images
    images: int = 0
    pixels: int = 0
    largest: int = 0  # pixels
    captions: int = 0
    characters: int = 0
    longest: int = 0  # characters
    frequent: Counter[str] = field(default_factory=Counter)  # captions, lower bounds
    tallies: dict[str, tuple[Tally, str]] = field(default_factory=dict)  # name -> sum, shard of the first place

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "version": 1,
            "samples": self.samples,
            "members": self.members,
            "size": self.size,
            "layout": {"kind": self.layout.kind, "name": self.layout.name, "images": list(self.layout.images)},
            "fields": {
                name: {"count": each.count, "bytes": each.bytes, "largest": each.largest}
                for name, each in self.fields.items()
            },
            "shapes": [{"fields": list(names), "count": count} for names, count in self.shapes.items()],
            "json_keys": {
                name: {"count": key.count, "strings": key.strings, "with_image": key.with_image, "example": key.example}
                for name, key in self.json_keys.items()
            },
            "images": {
                "count": self.images,
                "pixels": self.pixels,
                "largest": self.largest,
                "formats": dict(self.formats.most_common()),
                "modes": dict(self.modes.most_common()),
                "log2_pixels": {str(power): self.megapixels[power] for power in sorted(self.megapixels)},
            },
            "captions": {
                "count": self.captions,
                "characters": self.characters,
                "longest": self.longest,
                "frequent": dict(self.frequent.most_common(10)),
            },
            "tallies": {
                name: {
                    "count": tally.count,
                    "meaning": TALLIES.get(name, ""),
                    "shard": shard,
                    "key": tally.key,
                    "offset": tally.offset,
                    "detail": tally.detail,
                }
                for name, (tally, shard) in self.tallies.items()
            },
            "shards": [_shard(shard) for shard in self.shards],
        }


def overview(shards: Sequence[ShardEvidence]) -> Overview:
    """Sum up the evidence of shards."""
    total = Overview(shards, layout_of(shards))
    shapes: Counter[tuple[str, ...]] = Counter()
    for shard in shards:
        _add_fields(total, shard)
        _add_contents(total, shard)
        for shape, count in _shapes(shard):
            shapes[tuple(part.suffix.lower() for part in shape)] += count
        for name, tally in shard.tallies.items():
            known, url = total.tallies.setdefault(name, (Tally(), shard.url))
            known.add(tally.key, tally.offset, tally.detail, tally.count)
            total.tallies[name] = (known, url)
    total.shapes = dict(shapes.most_common())
    total.fields = dict(sorted(total.fields.items(), key=lambda item: -item[1].count))
    total.json_keys = dict(sorted(total.json_keys.items(), key=lambda item: (-item[1].strings, -item[1].count)))
    total.tallies = dict(sorted(total.tallies.items(), key=lambda item: -item[1][0].count))
    return total


def _shapes(shard: ShardEvidence) -> list[tuple[Shape, int]]:
    ends = [(run.shape, 1) for run in (shard.runs.head, shard.runs.tail) if run is not None]
    return [*ends, *((item.shape, item.count) for item in shard.runs.inner)]


def _add_fields(total: Overview, shard: ShardEvidence) -> None:
    for name, each in shard.fields.items():
        field_count = total.fields.setdefault(name, FieldCount())
        field_count.count += each.count
        field_count.bytes += each.bytes
        field_count.largest = max(field_count.largest, each.largest)
    for name, key in shard.json_keys.items():
        total.json_keys.setdefault(name, JsonKey()).add(key)


def _add_contents(total: Overview, shard: ShardEvidence) -> None:
    images, captions = shard.images, shard.captions
    total.images += images.count
    total.pixels += images.pixels
    total.largest = max(total.largest, images.largest)
    total.formats.update(images.formats)
    total.modes.update(images.modes)
    total.megapixels.update(images.megapixels)
    total.captions += captions.count
    total.characters += captions.characters
    total.longest = max(total.longest, captions.longest)
    total.frequent.update(captions.frequent)


def _shard(shard: ShardEvidence) -> dict[str, Any]:
    return {
        "url": shard.url,
        "size": shard.size,
        "members": shard.members,
        "samples": shard.samples,
        "error": shard.error,
        "stop": asdict(shard.stop),
        "compression": shard.compression,
        "beyond": shard.beyond,
    }
