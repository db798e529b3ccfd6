"""An overview and lists of samples as text on a console."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wdsflow.scan.evidence import CaptionFacts, ImageFacts
from wdsflow.scan.tallies import TALLIES
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, location_text, short_name, size

from ..report.writer import Writer
from .listed_samples import ListedSample
from .overview import Overview, most_frequent

if TYPE_CHECKING:
    from rich.console import Console

# Rows of a table.
MOST = 12
# Names of formats in a line.
_MOST_NAMES = 6
# Characters.
_BAR = 30


def show_overview(total: Overview, console: "Console") -> None:
    """Print an overview to a console."""
    writer = Writer(console)
    unread = sum(1 for shard in total.shards if shard.error is not None)
    shards = how_many(len(total.shards), "shard")
    if unread:
        shards += f" ({unread:,} unreadable)"
    samples = how_many(total.samples, "sample")
    members = how_many(total.members, "member")
    writer.line((f"{shards}, {samples}, {members}, {size(total.size)}", "bold"))
    if total.layout.name:
        writer.line(("Layout", "bold"), f"  {total.layout.text()}", hang=8)
    _fields(total, writer)
    _json(total, writer)
    _images(total.images, writer)
    _captions(total.captions, writer)
    _tallies(total, writer)
    _shards(total, writer)


def show_samples(url: str, samples: Sequence[ListedSample], console: "Console") -> None:
    """Print the first samples of a shard, one per line."""
    writer = Writer(console)
    writer.heading(f"First samples of {short_name(url)}")
    rows = []
    for sample in samples:
        texts = [f"{escape(name, 30)} {size(length)}" for name, length, _ in sample.members]
        members = ", ".join(texts[:MOST])
        if len(texts) > MOST:
            members += f" and {len(texts) - MOST:,} more"
        rows.append((f"{sample.offset:,}", escape(sample.key, 60), members))
    _table(writer, ("byte", "sample", "fields"), rows, align="><<")


def _fields(total: Overview, writer: Writer) -> None:
    rows = []
    for name, item in total.fields.items():
        sizes = _sizes(item.count, item.bytes, item.largest)
        rows.append((escape(name, 30), f"{item.count:,}", *sizes))
    if rows:
        writer.blank()
        _table(writer, ("Field", "members", "bytes", "mean", "largest"), rows, align="<>>>>")
    shapes = []
    for names, number in total.shapes.items():
        shapes.append((f"{number:,}", " ".join(escape(name, 30) for name in names)))
    if shapes:
        writer.blank()
        _table(writer, ("Samples", "with these fields"), shapes, align="><")


def _sizes(number: int, total: int, largest: int) -> tuple[str, str, str]:
    """Return total size, average size and largest size of members, as texts.

    The texts are empty if the sizes are not known.
    """
    if not total or not number:
        return "", "", ""
    return size(total), size(total / number), size(largest)


def _json(total: Overview, writer: Writer) -> None:
    rows = []
    for name, key in total.json_keys.items():
        example = escape(key.example, 60)
        rows.append((escape(name, 24), f"{key.count:,}", f"{key.strings:,}", example))
    if rows:
        writer.blank()
        _table(writer, ("Json name", "members", "texts", "for example"), rows, align="<>><")


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
    rows = []
    for power, number in sorted(sides.items()):
        pixels = f"{1 << power:,} to {2 << power:,}" if power >= 0 else "unknown"
        bar = "#" * max(round(_BAR * number / most), 1)
        rows.append((pixels, f"{number:,}", bar))
    _table(writer, ("pixels per side", "images", ""), rows, align="<><", indent=2, most=len(rows))


def _shares(counts: Mapping[str, int]) -> str:
    """Return the most frequent names with their numbers."""
    texts = []
    for name, number in most_frequent(counts, _MOST_NAMES).items():
        texts.append(f"{escape(name, 20) or 'unknown'} {number:,}")
    return ", ".join(texts)


def _captions(captions: CaptionFacts, writer: Writer) -> None:
    if not captions.count:
        return
    writer.blank()
    mean = captions.characters / captions.count
    numbers = (
        f"  {captions.count:,} in txt; mean {mean:.0f} characters, longest {captions.longest:,}"
    )
    writer.line(("Captions", "bold"), numbers, hang=10)
    for text, number in most_frequent(captions.frequent, 3).items():
        if number > max(2, captions.count // 1000):
            writer.line(f"at least {number:,} times: {escape(text, 80)}", indent=2, hang=2)


def _tallies(total: Overview, writer: Writer) -> None:
    if not total.tallies:
        return
    writer.heading("Worth knowing")
    for name, (tally, url) in list(total.tallies.items())[: 2 * MOST]:
        meaning = TALLIES.get(name, name)
        location = location_text(url, tally.key, tally.offset)
        first = f" (first: {location})" if location else ""
        writer.line(f"{tally.count:>8,}  {meaning}", (first, "dim"), indent=2, hang=10)


def _shards(total: Overview, writer: Writer) -> None:
    rows = []
    for shard in total.shards[:MOST]:
        key = shard.runs.head.key if shard.runs.head is not None else ""
        state = shard.error or ""
        if not state and shard.stop.kind != "end":
            state = f"{shard.stop.kind} at {shard.stop.offset:,}"
        stored = "" if shard.size is None else size(shard.size)
        numbers = (stored, f"{shard.members:,}", f"{shard.samples:,}")
        rows.append((short_name(shard.url), *numbers, escape(key, 32), state))
    writer.blank()
    _table(
        writer,
        ("Shard", "size", "members", "samples", "first sample", "stops"),
        rows,
        align="<>>><<",
    )
    if len(total.shards) > MOST:
        writer.line((f"and {how_many(len(total.shards) - MOST, 'more shard')}", "dim"), indent=2)


def _table(
    writer: Writer,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    align: str,
    indent: int = 0,
    most: int = MOST,
) -> None:
    """Print columns.

    ``align`` has a letter for each column: < aligns its cells left, > right.
    """
    shown = list(rows[:most])
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]

    def text(row: Sequence[str]) -> str:
        cells = []
        for cell, side, width in zip(row, align, widths, strict=True):
            cells.append(f"{cell:{side}{width}}")
        return "  ".join(cells).rstrip()

    writer.row(text(names), indent, "bold" if not indent else "dim")
    for row in shown:
        writer.row(text(row), indent)
    if len(rows) > most:
        writer.row(f"and {len(rows) - most:,} more", indent + 2, "dim")
