"""The files that a run will write, and outputs that are numbered without gaps."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wdsflow.filtering.kinds import kind_of
from wdsflow.records.refusals import refuse_inputs
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


class QuarantineTaken(FileExistsError):
    """The quarantine folder is used for something else, or has files of the same names."""


def refuse(layout: Layout, asked: Mapping[str, Any]) -> None:
    """Raise FileExistsError if a file to be written exists, is an input, or would be written twice."""
    _refuse_aside(layout)
    for folder, targets in _targets(layout, asked):
        taken: dict[str, str] = {}
        for target, name in targets:
            _refuse_twice(taken.setdefault(target, name), name, target)
        if folder == layout.quarantined and layout.quarantine_folder is None:
            continue  # nobody else writes there
        found = taken.keys() & _listed(folder)
        refuse_inputs(asked["urls"], [folder / each for each in sorted(found)])
        if found:
            kind = FileExistsError if folder == layout.folder else QuarantineTaken
            raise kind(f"{folder / min(found)} exists already, and no run wrote it: choose another folder")


def outputs_of(path: Path, asked: Mapping[str, Any]) -> list[Path]:
    """Return the files that there may be of an output of a run."""
    recipe = asked.get("recipe")
    return kind_of(path.name, recipe.get("lines_to", "") if isinstance(recipe, dict) else "").outputs(path)


def aside_of(layout: Layout) -> str | None:
    """Return the quarantine folder of a run, relative to its folder."""
    if layout.quarantine_folder is None:
        return None
    return os.path.relpath(os.path.realpath(layout.quarantine_folder), os.path.realpath(layout.folder))


def _refuse_aside(layout: Layout) -> None:
    """Raise FileExistsError if samples quarantined would lie among others of their name."""
    if layout.quarantine_folder is None:
        return
    aside, out, inside = map(os.path.realpath, (layout.quarantine_folder, layout.folder, layout.inside))
    if aside == out or os.path.commonpath((aside, inside)) == inside:
        raise QuarantineTaken(f"{layout.quarantine_folder} is for the output: choose another folder for --quarantine")


def _refuse_twice(one: str, other: str, target: str) -> None:
    if one != other:
        raise FileExistsError(
            f"{target} would be written for {one} and for {other}: filter them into different folders"
        )


def _targets(layout: Layout, asked: Mapping[str, Any]) -> Iterator[tuple[Path, list[tuple[str, str]]]]:
    """Yield each folder with (name of a file, output that it belongs to)."""
    names = [str(name) for name in asked["names"]]
    if layout.dense:
        yield layout.folder, [(dense_name(number), dense_name(number)) for number in range(len(names))]
    else:
        yield layout.folder, [(path.name, name) for name in names for path in outputs_of(layout.tar(name), asked)]
    reasons = ((layout.reasons(name).name, name) for name in names)
    yield layout.quarantined, [*((name, name) for name in names), *reasons]


def _listed(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()
