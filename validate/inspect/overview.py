"""Totals over shards: the numbers of ``wdsflow inspect``, and their text."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from wdsflow.scan.evidence import FieldCount, JsonKey, Shape, ShardEvidence, Tally
from wdsflow.scan.layouts import SetLayout, layout_of
from wdsflow.scan.naming import TALLIES
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, place, short, size

from ..report.report_text import Writer
from .shown_sample import Listed

if TYPE_CHECKING:
    from rich.console import Console


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


MOST = 12  # rows of a table
_BAR = 30  # characters


def show_overview(total: Overview, console: "Console") -> None:
    """Print an overview to a console."""
    writer = Writer(console)
    unread = sum(1 for shard in total.shards if shard.error is not None)
    broken = f" ({unread:,} unreadable)" if unread else ""
    amounts = (how_many(total.samples, "sample"), how_many(total.members, "member"), size(total.size))
    writer.line((f"{how_many(len(total.shards), 'shard')}{broken}, {', '.join(amounts)}", "bold"))
    if total.layout.name:
        writer.line(("Layout", "bold"), f"  {total.layout.text()}", hang=8)
    _fields(total, writer)
    _json(total, writer)
    _images(total, writer)
    _captions(total, writer)
    _tallies(total, writer)
    _shards(total, writer)


def show_samples(url: str, samples: Sequence[Listed], console: "Console") -> None:
    """Print the first samples of a shard, one per line."""
    writer = Writer(console)
    writer.heading(f"First samples of {short(url)}")
    rows = []
    for sample in samples:
        members = ", ".join(f"{escape(name, 30)} {size(length)}" for name, length, _ in sample.members[:MOST])
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
    shapes = [(f"{number:,}", " ".join(escape(name, 30) for name in names)) for names, number in total.shapes.items()]
    if shapes:
        writer.blank()
        _table(writer, ("Samples", "with these fields"), shapes, right=1)


def _sizes(number: int, total: int, largest: int) -> tuple[str, str, str]:
    return ("", "", "") if not total or not number else (size(total), size(total / number), size(largest))


def _json(total: Overview, writer: Writer) -> None:
    rows = [
        (escape(name, 24), f"{key.count:,}", f"{key.strings:,}", escape(key.example, 60))
        for name, key in total.json_keys.items()
    ]
    if rows:
        writer.blank()
        _table(writer, ("Json name", "members", "texts", "for example"), rows, left=3)


def _images(total: Overview, writer: Writer) -> None:
    if not total.images:
        return
    writer.blank()
    mean = total.pixels / total.images / 1e6
    writer.line(
        ("Images", "bold"),
        f"  {total.images:,}: {_shares(total.formats.most_common())}; {_shares(total.modes.most_common())}; "
        f"mean {mean:.2f} megapixels, largest {total.largest / 1e6:,.2f}",
        hang=8,
    )
    sides: dict[int, int] = {}  # powers of two of the side of a square with as many pixels
    for power, number in total.megapixels.items():
        sides[power // 2] = sides.get(power // 2, 0) + number
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


def _shares(items: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{escape(name, 20) or 'unknown'} {number:,}" for name, number in list(items)[:6])


def _captions(total: Overview, writer: Writer) -> None:
    if not total.captions:
        return
    writer.blank()
    mean = total.characters / total.captions
    said = f"  {total.captions:,} in txt; mean {mean:.0f} characters, longest {total.longest:,}"
    writer.line(("Captions", "bold"), said, hang=10)
    for text, number in total.frequent.most_common(3):
        if number > max(2, total.captions // 1000):
            writer.line(f"at least {number:,} times: {escape(text, 80)}", indent=2, hang=2)


def _tallies(total: Overview, writer: Writer) -> None:
    if not total.tallies:
        return
    writer.heading("Worth knowing")
    for name, (tally, url) in list(total.tallies.items())[: 2 * MOST]:
        where = place(url, tally.key, tally.offset)
        meaning = TALLIES.get(name, name)
        writer.line(f"{tally.count:>8,}  {meaning}", (f" (first: {where})" if where else "", "dim"), indent=2, hang=10)


def _shards(total: Overview, writer: Writer) -> None:
    rows = []
    for shard in total.shards[:MOST]:
        key = shard.runs.head.key if shard.runs.head is not None else ""
        state = shard.error or ("" if shard.stop.kind == "end" else f"{shard.stop.kind} at {shard.stop.offset:,}")
        stored = "" if shard.size is None else size(shard.size)
        rows.append((short(shard.url), stored, f"{shard.members:,}", f"{shard.samples:,}", escape(key, 32), state))
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
        cells = [
            cell.rjust(width) if right_flush else cell.ljust(width)
            for cell, width, right_flush in zip(row, widths, flush, strict=True)
        ]
        return "  ".join(cells).rstrip()

    if any(names):
        writer.row(text(names), indent, "bold" if not indent else "dim")
    for row in shown:
        writer.row(text(row), indent)
    if len(rows) > most:
        writer.row(f"and {len(rows) - most:,} more", indent + 2, "dim")
