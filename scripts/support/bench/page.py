"""Writes docs/benchmarks.md: what was measured on one machine on one date, one table a job."""

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

TEXTS = Path(__file__).with_name("sections")

INTRODUCTION = """\
# Benchmarks

Each row compares wdsflow with a peer on the same shards. They run in turn, each run in a fresh process; figures are medians. Rows in CPU seconds are those of
one process with a warm page cache, so that other programs hardly matter. A row whose goal is missed says so.

`scripts/bench NAME` repeats the row NAME, `scripts/bench --write-docs` writes this page. The shards are made by webdataset's TarWriter:
8 x 5,000 samples of a JPEG of 20 KB with txt and json, and 8 x 500 of a JPEG of 1.5 MB.
"""


class Section(NamedTuple):
    """A job, and the rows that belong to it."""

    # The name of its text in sections/.
    text: str
    # How the names of its rows begin.
    rows: tuple[str, ...]


SECTIONS = (
    Section("validating", ("names-", "headers-", "full-", "damage", "cold-")),
    Section("filtering", ("filter-", "resize-", "semantic-")),
    Section("models", ("clip-",)),
    Section("loaders", ("loader-", "first-batch", "fidelity")),
    Section("decoding", ("decode-",)),
    Section("resharding", ("reshard-",)),
    Section("grafting", ("graft-",)),
    Section("packing", ("pack-",)),
    Section("remote", ("remote-",)),
    Section("mapping", ("bounded-map",)),
)


def write_page(result: dict[str, Any], page: Path) -> None:
    """Write the page for one run of the measurements."""
    parts = [INTRODUCTION, _machine(result)]
    for section in SECTIONS:
        rows = [row for row in result["entries"] if row["name"].startswith(section.rows)]
        if rows:
            parts += [_text(section.text), _table(rows)]
            parts += _notes(rows)
    # Measured on other machines than this one.
    if not any(row["name"].startswith("remote-later-") for row in result["entries"]):
        parts.append(_text("later_epochs"))
    parts.append(_text("on_a_gpu"))
    page.write_text("\n".join(parts))


def _text(name: str) -> str:
    return (TEXTS / f"{name}.md").read_text()


def _machine(result: dict[str, Any]) -> str:
    machine = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    return (
        f"**{result['date']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB**, {machine['system']}, "
        f"Python {machine['python']}.\n{versions}.\n"
    )


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| row | what | wdsflow | peer | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    unit = row["unit"]
    unit_of_goal = f" {unit}" if row["judged"] == "ours" else "x"
    columns = [
        f"`{row['name']}`",
        row["title"],
        f"{row['ours']:.3g} {unit}",
        f"{row['peer']:.3g} {unit}",
        f"{row['ratio']:.3g}x",
        f"{row['goal_is']} {row['goal']:g}{unit_of_goal}",
        "met" if row["met"] else "**missed**",
    ]
    return f"| {' | '.join(columns)} |"


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    """Return the other measurements of some rows, as a list in Markdown.

    Empty if there are none.
    """
    lines = [
        note
        for row in rows
        for note in (_trials(row), _processor_time(row), _difference(row))
        if note
    ]
    photographs = {row["shards"] for row in rows if "photographs" in row["shards"]}
    lines += [f"* Photographs: {shards}." for shards in sorted(photographs)]
    return ["\n".join(lines) + "\n"] if lines else []


def _trials(row: dict[str, Any]) -> str:
    """Say how the number of workers was chosen."""
    if not row["trials"] or row["name"].endswith("-exact"):
        return ""
    speeds = ", ".join(f"{workers}: {speed:.3g}" for workers, speed in row["trials"].items())
    workers = row["ours_details"][0]["workers"]
    return f"* `{row['name']}`: {workers} workers; samples/s in the trials by workers: {speeds}."


def _processor_time(row: dict[str, Any]) -> str:
    """Say how much processor time both took for a sample, in milliseconds."""
    if not all(
        "cpu_ms_per_sample" in row[details][0] for details in ("ours_details", "peer_details")
    ):
        return ""
    ours = median(run["cpu_ms_per_sample"] for run in row["ours_details"])
    peer = median(run["cpu_ms_per_sample"] for run in row["peer_details"])
    return f"* `{row['name']}`: {ours:.3g} and {peer:.3g} ms of CPU time a sample."


def _difference(row: dict[str, Any]) -> str:
    """Say in how many images the modes differ, and by how much at most."""
    details = row["ours_details"][0]
    if "differ" not in details:
        return ""
    counts = f"{details['differ']} of {details['pictures']} pictures differ"
    return f"* `{row['name']}`: {counts}; the least PSNR was {details['least']:.3g} dB."
