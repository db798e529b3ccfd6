"""Outputs numbered without gaps: they wait inside until all are done, because only then their numbers are known."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from wdsflow.shards.atomic import sync_folder, write_file

from .layout import Layout
from .shard_record import ShardRecord


def dense_name(number: int) -> str:
    """Return the name of an output by its place among those that have samples."""
    return f"{number:05d}.tar"


def numbered(layout: Layout) -> dict[str, str]:
    """Return the numbered outputs, and the names under which they were written."""
    try:
        found = json.loads(layout.numbering.read_bytes())
        return {str(dense): str(name) for dense, name in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError):
        raise FileExistsError(
            f"{layout.numbering} is damaged: remove {layout.folder}, or choose another folder with -o"
        ) from None


def finder(layout: Layout) -> Callable[[str], Path]:
    """Return a function that returns the current path of an output."""
    numbers = {name: dense for dense, name in numbered(layout).items()}

    def lies_at(name: str) -> Path:
        waiting = layout.waiting / name
        if waiting.exists():
            return waiting
        return layout.folder / numbers[name] if name in numbers else layout.tar(name)

    return lies_at


def give_numbers(layout: Layout, records: Sequence[ShardRecord]) -> dict[str, int]:
    """Move all outputs out, under their numbers; return samples by name. If killed, the next call continues."""
    with_samples = [record for record in records if record.output is not None]
    names = {dense_name(number): record.name for number, record in enumerate(with_samples)}
    if names != numbered(layout):
        write_file(layout.numbering, json.dumps(names, indent=1).encode() + b"\n")
    for dense, name in names.items():
        with suppress(FileNotFoundError):  # already moved
            os.replace(layout.waiting / name, layout.folder / dense)
    sync_folder(layout.folder)
    with suppress(OSError):
        layout.waiting.rmdir()
    return {dense: record.counted for dense, record in zip(names, with_samples, strict=True)}


def take_numbers(layout: Layout) -> None:
    """Move all outputs back inside: one of them is written again and may change the numbers of others."""
    names = numbered(layout)
    if not names:
        return
    layout.waiting.mkdir(exist_ok=True)
    for dense, name in names.items():
        if not (layout.waiting / name).exists():
            with suppress(FileNotFoundError):
                os.replace(layout.folder / dense, layout.waiting / name)
    sync_folder(layout.waiting)
    layout.numbering.unlink()
