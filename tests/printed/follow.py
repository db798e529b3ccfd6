"""Follows everything that a report prints, and compares what it promises with the real readers."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.conformance.compare import RealReader
from tests.printed.pasted import commands, paste, run, snippets
from wdsflow.readers.base import Options

_PROMISE = re.compile(r"(up to )?([\d,]+) of ([\d,]+) samples would reach a batch in ")
_TITLES = {
    "open-clip-3.3": "OpenCLIP 3.3.0",
    "webdataset-1": "webdataset 1.x",
    "datasets": "Hugging Face datasets",
    "ray-data": "Ray Data",
}
WIDE = "100000"  # characters a line, so that sentences are whole; commands are not wrapped at any width


def follow(
    folder: Path, urls: Sequence[str], readers: Mapping[str, RealReader], level: str = "full"
) -> Iterator[str]:
    """Validate shards in a folder, do all that is advised, and yield what is not as was said."""
    asked = [word for name in readers for word in ("--for", name)]
    report = run(["validate", *urls, "--level", level, *asked], folder)
    if report.status == 2:
        nothing = "nothing could be read" in report.errors or "no shards match" in report.errors
        yield from () if nothing else [f"validate ended with 2: {report.errors}"]
        return
    for step in _steps(report.out):
        for command in commands(step):
            yield from _follow_command(folder, command, step, readers)
        for code in snippets(step):
            files = json.loads(
                run(["validate", *urls, "--level", "names", "--format", "json"], folder).out
            )["shards"]
            paths = [str(folder / shard["url"]) for shard in files]
            yield from _compare(
                step,
                code,
                lambda name, paths=paths, code=code: readers[name].read(paths, Options(), code),
            )
    for command in commands(report.out):
        if not any(command in step for step in _steps(report.out)):
            # A fix, with what it brings.
            told = report.out.partition(command)[0].rstrip().rpartition("\n")[2]
            yield from _follow_command(folder, command, told, readers)


def _steps(report: str) -> list[str]:
    """Return the numbered things to do."""
    todo = report.partition("\nWhat to do\n")[2].partition("\nFound")[0]
    return re.split(r"^  (?=\d+\. )", todo, flags=re.MULTILINE)[1:]


def _follow_command(
    folder: Path, command: str, step: str, readers: Mapping[str, RealReader]
) -> Iterator[str]:
    if not command.startswith("wdsflow "):
        return  # what installs something
    done = paste(command, folder)
    if done.status not in (0, 1) or (done.status == 1 and command.startswith("wdsflow explain")):
        yield f"{command}: ended with {done.status}: {done.errors}"
        return
    output = re.search(r" -o (\S+)", command)
    if output is None:
        return
    made = folder / output[1]
    shards = sorted(str(path) for path in made.glob("*.tar"))
    yield from _compare(step, command, lambda name: readers[name].read(shards, Options()))
    for further in commands(done.out):
        after = paste(further, folder)
        if after.status not in (0, 1):
            yield f"{further} (after {command}): ended with {after.status}: {after.errors}"
    shutil.rmtree(made, ignore_errors=True)


def _compare(step: str, what: str, read) -> Iterator[str]:
    """Compare each number that a step promises with what a reader gives."""
    places = [*_PROMISE.finditer(step)]
    ends = [*(place.start() for place in places[1:]), len(step)]
    for place, end in zip(places, ends, strict=False):
        titles = step[place.end() : end].partition("\n")[0]
        for name, title in _TITLES.items():
            if title not in titles:
                continue
            real = read(name) if name else {}
            number = sum(map(len, real["keys"]))
            promised = int(place[2].replace(",", ""))
            right = number <= promised if place[1] else number == promised
            if not right or real["error"]:
                yield f"{name}: {what}: promised {place[0]}, really {number} {real['error'] or ''}"
