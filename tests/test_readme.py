"""What the README and the pages under docs/ show is what the program does.

A page's blocks run one after the other, in a folder with a small set of shards: Python, and
commands with what they print. A page names its set in a comment, ``<!-- set: truncated -->``; most
use that with captions in json.
"""

import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import click
import pytest
from support import faults

from tests.distributions import write_distribution
from tests.printed.pasted import Done, paste, words
from wdsflow import example_shards
from wdsflow.cli.main import COMMANDS, _split_at_dashes, wdsflow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
# Pages whose commands start browsers and processes.
SLOW = {
    "docs/feed.md",
    "docs/filter.md",
    "docs/mapping.md",
    "docs/predicates.md",
    "docs/report.md",
    "docs/resize.md",
    "docs/runs.md",
}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SET = re.compile(r"^<!-- set: (\w+) -->$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(*languages: str, marks: Collection[str] = ("",)) -> list[tuple[str, str, str]]:
    """Return (page, language, block) for each fenced block of some languages.

    Leaves out blocks that are files, and blocks marked `no-run`.
    """
    return [
        (name_of(page), found[1], found[3])
        for page in PAGES
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
        if found[1] in languages and found[2].strip() in marks
    ]


def files(*pages: Path) -> dict[str, str]:
    """Return the contents of the files that pages show, by name.

    These are the fenced blocks with a file name. Without pages, all pages are searched.
    """
    found = (
        each for page in pages or PAGES for each in FENCE.finditer(page.read_text(encoding="utf-8"))
    )
    return {each[2].strip(): each[3] for each in found if "." in each[2]}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


def install(folder: Path) -> None:
    """Write what `pip install .` makes of the custom scores that the pages show."""
    for name, text in files().items():
        if name.endswith(".py"):
            (folder / name).write_text(text)
        if not name.endswith("pyproject.toml"):
            continue
        project = tomllib.loads(text)["project"]
        write_distribution(folder, project["name"], project["entry-points"], project["version"])


def img2dataset(folder: Path, drawn: list[example_shards.Scene]) -> None:
    """Write shards as img2dataset does: jpg, txt and json, and a file with counts next to each."""
    folder.mkdir()
    for shard in range(4):
        with tarfile.open(folder / f"{shard:03d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number, scene in enumerate(drawn[shard::4]):
                key = f"{shard:03d}{number:04d}"
                facts = {"uid": f"{shard:016x}{number:016x}", "caption": scene.caption, "key": key}
                described = json.dumps(
                    {**facts, "original_width": 1024, "original_height": 768}
                ).encode()
                for field, data in {
                    "jpg": scene.jpeg,
                    "json": described,
                    "txt": scene.caption.encode(),
                }.items():
                    info = tarfile.TarInfo(f"{key}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        counts = {"count": 10, "successes": 10, "failed_to_download": 0, "failed_to_resize": 0}
        (folder / f"{shard:03d}_stats.json").write_text(json.dumps(counts))


@cache
def scenes_drawn() -> list[example_shards.Scene]:
    return example_shards.draw(40)


def commands_of(block: str, language: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of ours in a block to run, with the lines that the page says it prints."""
    if language == "sh":
        yield from ((line, []) for line in block.splitlines() if line.startswith("wdsflow "))
        return
    assert block.startswith("$ wdsflow "), block
    for part in block.removeprefix("$ ").split("\n$ "):
        command, *shown = part.splitlines()
        yield command, shown


def pages_to_run() -> list[str]:
    return sorted({page for page, _, _ in blocks("console", "python", "sh")})


def marks_of(page: str) -> list[pytest.MarkDecorator]:
    """Return the mark of slow pages, if a page is slow.

    A page is slow if its commands load a score that the page installs, or if it has many commands.
    """
    commands = [block for other, _, block in blocks("console") if other == page]
    slow = page in SLOW or any(name in block for block in commands for name in scores_of_pages())
    return [pytest.mark.deep] if slow or page.count("/") > 1 else []


@cache
def scores_of_pages() -> set[str]:
    projects = [
        tomllib.loads(text)["project"]
        for name, text in files().items()
        if name.endswith("pyproject.toml")
    ]
    return {name for project in projects for name in project["entry-points"]["wdsflow.scores"]}


def printed_by(command: str, folder: Path, environment: dict[str, str]) -> Done:
    """Run a command, in this process if possible.

    A command that needs a score that a page installs runs in its own process.
    """
    if not any(name in command for name in scores_of_pages()):
        return paste(command, folder)
    run = [sys.executable, "-c", "from wdsflow.cli.main import main; main()", *words(command)]
    done = subprocess.run(
        run, cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves shards open
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of Lightning
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks_of(page)) for page in pages_to_run()]
)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, installed, monkeypatch):
    """Each line of output that a block shows is in the real output, in that order.

    `...` skips lines.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    named = SET.search(text)
    name_of_set = named[1] if named else "captions_in_json"
    make = img2dataset if name_of_set == "img2dataset" else getattr(faults, name_of_set)
    make(tmp_path / "shards", scenes_drawn())
    for name, contents in files(ROOT / page).items():
        if "/" not in name:
            (tmp_path / name).write_text(contents)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "COLUMNS": "100",
        "NO_COLOR": "1",
        # Indexes of joined tables.
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}",
    }.items():
        monkeypatch.setenv(name, value)
    for _, language, block in (
        each for each in blocks("console", "python", "sh") if each[0] == page
    ):
        if language == "python":
            # What a block registers with webdataset holds for this test only.
            gopen = importlib.import_module("webdataset.gopen")
            monkeypatch.setattr(gopen, "gopen_schemes", dict(gopen.gopen_schemes))
            exec(compile(block, page, "exec"), {"__name__": "__main__"})
            continue
        for command, shown in commands_of(block, language):
            done = printed_by(command, tmp_path, dict(os.environ))
            assert done.status in (0, 1), f"{page}: {command}\n{done}"
            rest = iter([line.strip() for line in done.out.splitlines()])
            for line in shown:
                if line.strip() not in {"", "..."}:
                    assert line.strip() in rest, f"{page}: {line}\n{done.out}{done.errors}"


def test_a_custom_score_is_packed_even_if_shards_are_in_the_same_folder(tmp_path):
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    for name in ("my_scores.py", "pyproject.toml"):
        (tmp_path / name).write_text(files()[name])
    for folder in ("shards", "warm"):
        (tmp_path / folder).mkdir()
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert "my_scores.py" in ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.name
)
def test_pictures_load_nothing_and_name_no_folder_of_a_machine(picture):
    text = picture.read_text(encoding="utf-8")
    assert re.findall(r"url\((?!#)[^)]*\)|@import|href=|/(?:tmp|home|root|var)/", text) == []


def lines_to_type() -> list[tuple[str, str]]:
    """Return (page, line) for each command of ours that a page tells to type; synopses are none."""
    typed = [
        (page, line)
        for page, _, block in blocks("sh", "bash", marks=("", "no-run"))
        for line in block.splitlines()
    ]
    typed += [
        (page, line)
        for page, _, block in blocks("text")
        for line in re.findall(r"^\$ (.*)", block, re.MULTILINE)
    ]
    return [
        (page, line)
        for page, line in typed
        if re.search(r"\bwdsflow [a-z]", line) and "URL..." not in line
    ]


@pytest.mark.parametrize("page", sorted({page for page, _ in lines_to_type()}))
def test_commands_that_are_not_run_here_have_options_that_there_are(page):
    for line in (line for other, line in lines_to_type() if other == page):
        command = re.search(r"\bwdsflow ([a-z]+) ?(.*)", line)
        if command is None or command[1] not in COMMANDS:
            continue  # names a package and its version
        typed = shlex.split(command[0], comments=True)[1:]
        own, _ = _split_at_dashes([word for word in typed if word != "..."])
        group: Any = wdsflow()
        parent = click.Context(group, info_name="wdsflow")
        # Raises where it cannot be typed.
        group.get_command(parent, own[0]).make_context(own[0], own[1:], parent=parent)
