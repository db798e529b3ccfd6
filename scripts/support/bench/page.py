"""Writes docs/benchmarks.md from the figures."""

from pathlib import Path
from typing import Any

INTRODUCTION = """\
# Benchmarks

Written by `scripts/bench --write-docs`; not by hand. Each comparison runs ours and the peer in turn on the same shards,
every run in a fresh process; the figures are medians. Where the page cache is warm and one process does the work, its CPU
time counts, which other programs on the machine do not move; from a cold cache it is the time on the clock. The shards
are made by the script with webdataset's own TarWriter: 8 x 5,000 samples of a jpg of 20 KB with txt and json, and 8 x 500
of a jpg of 1.5 MB.
"""


def write_page(result: dict[str, Any], page: Path) -> None:
    """Write the page for one run of the measurements."""
    machine, versions = result["machine"], result["versions"]
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"
    what = ", ".join(f"{name} {number}" for name, number in versions.items())
    rows = ["| | what | ours | peer | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    rows += [_row(row) for row in result["entries"]]
    text = (
        f"{INTRODUCTION}\n{result['date']}, {where}, Python {machine['python']}.\n{what}.\n\n" + "\n".join(rows) + "\n"
    )
    page.write_text(text)


def _row(row: dict[str, Any]) -> str:
    unit = row["unit"]
    of = f" {unit}" if row["judged"] == "ours" else "x"
    goal = f"{row['goal_is']} {row['goal']:g}{of}"
    met = "met" if row["met"] else "missed"
    figures = f"{row['ours']:.3g} {unit} | {row['peer']:.3g} {unit} | {row['ratio']:.3g}x"
    return f"| `{row['name']}` | {row['title']} | {figures} | {goal} | {met} |"
