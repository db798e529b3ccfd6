"""Distributions of others, such as a user installs: for tests of entry points."""

from collections.abc import Mapping
from pathlib import Path


def write_distribution(
    folder: Path, name: str, entry_points: Mapping[str, Mapping[str, str]], version: str = "1"
) -> None:
    """Write what makes a distribution an installed one where ``folder`` is on the path.

    ``entry_points``: group -> name -> "module:object".
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in entry_points.items():
        lines.append(f"[{group}]")
        lines += [f"{entry} = {place}" for entry, place in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
