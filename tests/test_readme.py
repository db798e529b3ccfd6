"""What the README and the pages under docs/ show is what the program does."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import typer
from support import faults, scenes

from wdsflow.cli.main import COMMANDS, _app, _split

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, block) for each fenced block of a language, except files and those marked `no-run`."""
    return [
        (page.name, found[3])
        for page in PAGES
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
        if found[1] == language and not found[2].strip()
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


@pytest.fixture
def shards(tmp_path_factory):
    """The small set on which a page's examples run: `shards/{000..003}.tar`, captions in json."""
    folder = tmp_path_factory.mktemp("readme")
    faults.captions_in_json(folder / "shards", scenes.draw(40))
    return folder


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_python_blocks_run(page, block, shards, monkeypatch):
    monkeypatch.chdir(shards)
    exec(compile(block, page, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "page",
    [
        page if page == "README.md" else pytest.param(page, marks=pytest.mark.deep)
        for page in sorted({page for page, _ in blocks("console")})
    ],
)
def test_console_blocks_show_what_the_commands_print_one_after_the_other(page, shards, installed):
    """Each line of output that a block shows stands in the real output, in that order; `...` skips lines."""
    environment = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "COLUMNS": "100", "NO_COLOR": "1"}
    for block in (block for other, block in blocks("console") if other == page):
        command, *shown = block.splitlines()
        assert command.startswith("$ wdsflow "), command
        run = [sys.executable, "-c", "from wdsflow.cli.main import main; main()", *shlex.split(command)[2:]]
        done = subprocess.run(run, cwd=shards, capture_output=True, text=True, env=environment, check=False)
        rest = iter([line.strip() for line in done.stdout.splitlines()])
        for line in shown:
            if line.strip() not in {"", "..."}:
                assert line.strip() in rest, f"{page}: {line}\n{done.stdout}{done.stderr}"


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
    typed = [(page, line) for page, block in blocks("sh") for line in block.splitlines()]
    typed += [(page, block.splitlines()[0].removeprefix("$ ")) for page, block in [*blocks("console"), *blocks("text")]]
    return [(page, line) for page, line in typed if re.search(r"\bwdsflow [a-z]", line) and "URL..." not in line]


@pytest.mark.parametrize(("page", "line"), lines_to_type())
def test_commands_on_the_pages_have_options_that_there_are(page, line):
    command = re.search(r"\bwdsflow ([a-z]+) ?(.*)", line)
    if command is None or command[1] not in COMMANDS:
        return  # names a package and its version
    words = shlex.split(command[0], comments=True)[1:]
    own, _ = _split([word for word in words if word != "..."])
    group: Any = typer.main.get_command(_app(own))
    parent = typer.Context(group, info_name="wdsflow")
    group.get_command(parent, own[0]).make_context(own[0], own[1:], parent=parent)  # raises where it cannot be typed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    missing = [
        target for target in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]
    assert missing == []
