"""Totals over shards: the numbers of ``wdsflow inspect``, and their text."""

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, TypeVar

from wdsflow.scan.evidence import (
    CaptionFacts,
    FieldCount,
    ImageFacts,
    JsonKey,
    ShardEvidence,
    Tally,
)
from wdsflow.scan.layouts import SetLayout, layout_of
from wdsflow.scan.naming import TALLIES
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, place, short, size

from ..report.as_json import picked
from ..report.writer import Writer
from .shown_sample import Listed

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(slots=True)
class Overview:
    """All shards together. Numbers are sums; examples and places are the first found."""

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
        images, captions = self.images, self.captions
        return {
            "version": 1,
            **picked(self, "samples members size"),
            "layout": {
                "kind": self.layout.kind,
                "name": self.layout.name,
                "images": list(self.layout.images),
            },
            "fields": {
                name: picked(each, "count bytes largest") for name, each in self.fields.items()
            },
            "shapes": [
                {"fields": list(names), "count": count} for names, count in self.shapes.items()
            ],
            "json_keys": {
                name: picked(key, "count strings with_image example")
                for name, key in self.json_keys.items()
            },
            "images": {
                **picked(images, "count pixels largest"),
                "formats": _most_frequent(images.formats),
                "modes": _most_frequent(images.modes),
                "log2_pixels": {
                    str(power): count for power, count in sorted(images.megapixels.items())
                },
            },
            "captions": {
                **picked(captions, "count characters longest"),
                "frequent": _most_frequent(captions.frequent, 10),
            },
            "tallies": {
                name: {
                    "count": tally.count,
                    "meaning": TALLIES.get(name, ""),
                    "shard": shard,
                    **picked(tally, "key offset detail"),
                }
                for name, (tally, shard) in self.tallies.items()
            },
            "shards": [
                {
                    **picked(shard, "url size members samples error stop compression beyond"),
                    "stop": shard.stop._asdict(),
                }
                for shard in self.shards
            ],
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
        ends = [(run.shape, 1) for run in (shard.runs.head, shard.runs.tail) if run is not None]
        for shape, number in [*ends, *((item.shape, item.count) for item in shard.runs.inner)]:
            shapes[tuple(part.suffix.lower() for part in shape)] += number
        for name, tally in shard.tallies.items():
            known, _ = total.tallies.setdefault(name, (Tally(), shard.url))
            known.add(tally.key, tally.offset, tally.detail, tally.count)
    total.shapes = dict(shapes.most_common())
    total.fields = dict(sorted(total.fields.items(), key=lambda item: -item[1].count))
    total.json_keys = dict(
        sorted(total.json_keys.items(), key=lambda item: (-item[1].strings, -item[1].count))
    )
    total.tallies = dict(sorted(total.tallies.items(), key=lambda item: -item[1][0].count))
    return total


_Facts = TypeVar("_Facts", FieldCount, ImageFacts, CaptionFacts)


def _add(total: _Facts, more: _Facts) -> None:
    """Add the numbers of one shard; of largest ones the larger is kept."""
    for each in dataclass_fields(more):
        value = getattr(more, each.name)
        if isinstance(value, dict):
            known = getattr(total, each.name)
            for name, count in value.items():
                known[name] = known.get(name, 0) + count
        elif each.name != "ranks":
            combine = max if each.name in ("largest", "longest") else operator.add
            setattr(total, each.name, combine(getattr(total, each.name), value))


def _most_frequent(counts: Mapping[str, int], most: int | None = None) -> dict[str, int]:
    return dict(Counter(counts).most_common(most))


# Rows of a table.
MOST = 12
# Characters.
_BAR = 30


def show_overview(total: Overview, console: "Console") -> None:
    """Print an overview to a console."""
    writer = Writer(console)
    unread = sum(1 for shard in total.shards if shard.error is not None)
    broken = f" ({unread:,} unreadable)" if unread else ""
    amounts = (
        how_many(total.samples, "sample"),
        how_many(total.members, "member"),
        size(total.size),
    )
    writer.line((f"{how_many(len(total.shards), 'shard')}{broken}, {', '.join(amounts)}", "bold"))
    if total.layout.name:
        writer.line(("Layout", "bold"), f"  {total.layout.text()}", hang=8)
    _fields(total, writer)
    _json(total, writer)
    _images(total.images, writer)
    _captions(total.captions, writer)
    _tallies(total, writer)
    _shards(total, writer)


def show_samples(url: str, samples: Sequence[Listed], console: "Console") -> None:
    """Print the first samples of a shard, one per line."""
    writer = Writer(console)
    writer.heading(f"First samples of {short(url)}")
    rows = []
    for sample in samples:
        members = ", ".join(
            f"{escape(name, 30)} {size(length)}" for name, length, _ in sample.members[:MOST]
        )
        more = f" and {len(sample.members) - MOST:,} more" if len(sample.members) > MOST else ""
        rows.append((f"{sample.offset:,}", escape(sample.key, 60), members + more))
    _table(writer, ("byte", "sample", "fields"), rows, right=1)


def _fields(total: Overview, writer: Writer) -> None:
    rows = [
        (escape(name, 30), f"{each.count:,}", *_sizes(each.count, each.bytes, each.largest))
        for name, each in total.fields.items()
    ]
    if rows:
        writer.blank()
        _table(writer, ("Field", "members", "bytes", "mean", "largest"), rows)
    shapes = [
        (f"{number:,}", " ".join(escape(name, 30) for name in names))
        for names, number in total.shapes.items()
    ]
    if shapes:
        writer.blank()
        _table(writer, ("Samples", "with these fields"), shapes, right=1)


def _sizes(number: int, total: int, largest: int) -> tuple[str, str, str]:
    return (
        ("", "", "")
        if not total or not number
        else (size(total), size(total / number), size(largest))
    )


def _json(total: Overview, writer: Writer) -> None:
    rows = [
        (escape(name, 24), f"{key.count:,}", f"{key.strings:,}", escape(key.example, 60))
        for name, key in total.json_keys.items()
    ]
    if rows:
        writer.blank()
        _table(writer, ("Json name", "members", "texts", "for example"), rows, left=3)


def _images(images: ImageFacts, writer: Writer) -> None:
    if not images.count:
        return
    writer.blank()
    mean = images.pixels / images.count / 1e6
    writer.line(
        ("Images", "bold"),
        f"  {images.count:,}: {_shares(images.formats)}; {_shares(images.modes)}; "
        f"mean {mean:.2f} megapixels, largest {images.largest / 1e6:,.2f}",
        hang=8,
    )
    # Powers of two of the side of a square with as many pixels.
    sides: Counter[int] = Counter()
    for power, number in images.megapixels.items():
        sides[power // 2] += number
    most = max(sides.values(), default=1)
    rows = [
        (
            f"{1 << power:,} to {2 << power:,}" if power >= 0 else "unknown",
            f"{number:,}",
            "#" * max(round(_BAR * number / most), 1),
        )
        for power, number in sorted(sides.items())
    ]
    _table(writer, ("pixels per side", "images", ""), rows, left=2, indent=2, most=99)


def _shares(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{escape(name, 20) or 'unknown'} {number:,}"
        for name, number in _most_frequent(counts, 6).items()
    )


def _captions(captions: CaptionFacts, writer: Writer) -> None:
    if not captions.count:
        return
    writer.blank()
    mean = captions.characters / captions.count
    numbers = (
        f"  {captions.count:,} in txt; mean {mean:.0f} characters, longest {captions.longest:,}"
    )
    writer.line(("Captions", "bold"), numbers, hang=10)
    for text, number in _most_frequent(captions.frequent, 3).items():
        if number > max(2, captions.count // 1000):
            writer.line(f"at least {number:,} times: {escape(text, 80)}", indent=2, hang=2)


def _tallies(total: Overview, writer: Writer) -> None:
    if not total.tallies:
        return
    writer.heading("Worth knowing")
    for name, (tally, url) in list(total.tallies.items())[: 2 * MOST]:
        where = place(url, tally.key, tally.offset)
        meaning = TALLIES.get(name, name)
        writer.line(
            f"{tally.count:>8,}  {meaning}",
            (f" (first: {where})" if where else "", "dim"),
            indent=2,
            hang=10,
        )


def _shards(total: Overview, writer: Writer) -> None:
    rows = []
    for shard in total.shards[:MOST]:
        key = shard.runs.head.key if shard.runs.head is not None else ""
        state = shard.error or (
            "" if shard.stop.kind == "end" else f"{shard.stop.kind} at {shard.stop.offset:,}"
        )
        stored = "" if shard.size is None else size(shard.size)
        rows.append(
            (
                short(shard.url),
                stored,
                f"{shard.members:,}",
                f"{shard.samples:,}",
                escape(key, 32),
                state,
            )
        )
    writer.blank()
    _table(writer, ("Shard", "size", "members", "samples", "first sample", "stops"), rows, left=4)
    if len(total.shards) > MOST:
        writer.line((f"and {how_many(len(total.shards) - MOST, 'more shard')}", "dim"), indent=2)


def _table(
    writer: Writer,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: int = 0,
    left: int = 99,
    indent: int = 0,
    most: int = MOST,
) -> None:
    """Print columns: the first aligned left (right with ``right=1``), the others right up to column ``left``."""
    shown = list(rows[:most])
    widths = [max(len(row[column]) for row in [names, *shown]) for column in range(len(names))]
    flush = [(column < right) or (not right and 0 < column < left) for column in range(len(names))]

    def text(row: Sequence[str]) -> str:
        cells = zip(row, widths, flush, strict=True)
        return "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells
        ).rstrip()

    writer.row(text(names), indent, "bold" if not indent else "dim")
    for row in shown:
        writer.row(text(row), indent)
    if len(rows) > most:
        writer.row(f"and {len(rows) - most:,} more", indent + 2, "dim")
