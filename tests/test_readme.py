"""What the README and the pages under docs/ show is what the program does.

A page's blocks run one after the other, in a folder with a small set of shards: Python, and commands with what they
print. A page names its set in a comment, ``<!-- set: truncated -->``; most use that with captions in json.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import typer
from support import faults, scenes

from tests.printed.pasted import Done, paste, words
from wdsflow.cli.main import COMMANDS, _app, _split

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SET = re.compile(r"^<!-- set: (\w+) -->$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(*languages: str, marks: Collection[str] = ("",)) -> list[tuple[str, str, str]]:
    """Return (page, language, block) for each fenced block of some languages: not files, nor those marked `no-run`."""
    return [
        (name_of(page), found[1], found[3])
        for page in PAGES
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
        if found[1] in languages and found[2].strip() in marks
    ]


def files() -> dict[str, str]:
    """Return the contents of the files that the pages show: fenced blocks with a name."""
    found = (each for page in PAGES for each in FENCE.finditer(page.read_text(encoding="utf-8")))
    return {each[2].strip(): each[3] for each in found if "." in each[2]}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `pip install .` makes of the custom score that the pages show."""
    folder = tmp_path_factory.mktemp("site")
    shown = files()
    (folder / "my_scores.py").write_text(shown["my_scores.py"])
    project = tomllib.loads(shown["pyproject.toml"])["project"]
    info = folder / "my_scores-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = {
        group: "\n".join(f"{name} = {place}" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    }
    (info / "entry_points.txt").write_text("\n".join(f"[{group}]\n{text}\n" for group, text in groups.items()))
    return folder


@cache
def scenes_drawn() -> list[scenes.Scene]:
    return scenes.draw(40)


def commands_of(block: str, language: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of ours in a block to run, with the lines that the page says it prints."""
    if language == "sh":
        yield from ((line, []) for line in block.splitlines() if line.startswith("wdsflow "))
        return
    assert block.startswith("$ wdsflow "), block
    for part in block.removeprefix("$ ").split("\n$ "):
        command, *shown = part.splitlines()
        yield command, shown


def printed_by(command: str, folder: Path, shows_files: bool, environment: dict[str, str]) -> Done:
    """Run a command: in this process, or in one of its own where it needs what a page installs."""
    if not shows_files:
        return paste(command, folder)
    run = [sys.executable, "-c", "from wdsflow.cli.main import main; main()", *words(command)]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves shards open
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", sorted({page for page, _, _ in blocks("console", "python", "sh")}))
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, installed, monkeypatch):
    """Each line of output that a block shows is in the real output, in that order; `...` skips lines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = SET.search(text)
    getattr(faults, named[1] if named else "captions_in_json")(tmp_path / "shards", scenes_drawn())
    monkeypatch.chdir(tmp_path)
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}.items():
        monkeypatch.setenv(name, value)
    shows_files = any(found[2].strip().endswith(".py") for found in FENCE.finditer(text))
    for _, language, block in (each for each in blocks("console", "python", "sh") if each[0] == page):
        if language == "python":
            exec(compile(block, page, "exec"), {"__name__": "__main__"})
            continue
        for command, shown in commands_of(block, language):
            done = printed_by(command, tmp_path, shows_files, dict(os.environ))
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


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.name)
def test_pictures_load_nothing_and_name_no_folder_of_a_machine(picture):
    text = picture.read_text(encoding="utf-8")
    assert re.findall(r"url\((?!#)[^)]*\)|@import|href=|/(?:tmp|home|root|var)/", text) == []


def lines_to_type() -> list[tuple[str, str]]:
    """Return (page, line) for each command of ours that a page tells to type; synopses are none."""
    typed = [
        (page, line) for page, _, block in blocks("sh", "bash", marks=("", "no-run")) for line in block.splitlines()
    ]
    typed += [
        (page, line) for page, _, block in blocks("text") for line in re.findall(r"^\$ (.*)", block, re.MULTILINE)
    ]
    return [(page, line) for page, line in typed if re.search(r"\bwdsflow [a-z]", line) and "URL..." not in line]


@pytest.mark.parametrize("page", sorted({page for page, _ in lines_to_type()}))
def test_commands_that_are_not_run_here_have_options_that_there_are(page):
    for line in (line for other, line in lines_to_type() if other == page):
        command = re.search(r"\bwdsflow ([a-z]+) ?(.*)", line)
        if command is None or command[1] not in COMMANDS:
            continue  # names a package and its version
        typed = shlex.split(command[0], comments=True)[1:]
        own, _ = _split([word for word in typed if word != "..."])
        group: Any = typer.main.get_command(_app(own))
        parent = typer.Context(group, info_name="wdsflow")
        group.get_command(parent, own[0]).make_context(
            own[0], own[1:], parent=parent
        )  # raises where it cannot be typed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    missing = [
        target for target in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]
    assert missing == []
