"""The text of ``wdsflow inspect``: the contents of shards, on one screen."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wdsflow.scan.tallies import TALLIES
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many, place, short, size

from ..report.console_writer import Writer
from .listing import Listed
from .overview import Overview

if TYPE_CHECKING:
    from rich.console import Console

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
