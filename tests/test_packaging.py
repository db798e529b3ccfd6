"""What is installed is what is in the tree, and nothing in the tree ties it to one machine."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = {
    "wdsflow": ROOT / "wdsflow",
    "wdsflow.stages": ROOT / "stages",
    "wdsflow.validate": ROOT / "validate",
}
PIN = re.compile(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.+!]*( ; .+)?")


def packages_in(name: str, folder: Path) -> set[str]:
    """Return the packages of a folder, without following the links that bring the other rooms."""
    found = set()
    for path, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "__"))]
        if "__init__.py" in files:
            found.add(".".join([name, *Path(path).relative_to(folder).parts]))
    return found


def tracked_files() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {line.split("\t")[1]: line.split()[0] for line in listed.stdout.splitlines()}


def test_every_package_of_the_tree_is_listed_for_the_wheel():
    in_tree = set().union(*(packages_in(name, folder) for name, folder in ROOMS.items()))
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == in_tree


def test_data_files_are_listed_for_the_wheel():
    listed = {
        path.resolve()
        for package, patterns in PYPROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    in_tree = [
        ROOT / name
        for name in tracked_files()
        if name.startswith(("wdsflow/", "stages/", "validate/"))
    ]
    assert listed == {path for path in in_tree if path.suffix != ".py" and path.is_file()}


def test_the_links_are_tracked_as_links_and_lead_to_the_rooms():
    modes = tracked_files()
    for name in ("stages", "validate"):
        assert modes[f"wdsflow/{name}"] == "120000"
        assert os.readlink(ROOT / "wdsflow" / name) == f"../{name}"


def test_lock_files_hold_names_and_versions_only():
    lines = [
        line
        for path in (ROOT / "scripts" / "locks").iterdir()
        for line in path.read_text().splitlines()
    ]
    assert lines
    assert [line for line in lines if not PIN.fullmatch(line)] == []


def test_every_dependency_is_locked():
    groups = dict(PYPROJECT["dependency-groups"])
    wanted = {
        "docs.txt": groups.pop("docs"),
        "wdsflow.txt": [*PYPROJECT["project"]["dependencies"]],
    }
    wanted["wdsflow.txt"] += PYPROJECT["project"]["optional-dependencies"]["openclip"]
    wanted["wdsflow.txt"] += [
        line for group in groups.values() for line in group if isinstance(line, str)
    ]
    for lock, lines in wanted.items():
        locked = {
            line.split("==")[0] for line in (ROOT / "scripts/locks" / lock).read_text().splitlines()
        }
        names = {re.split(r"[\[<>=!~ ]", line)[0].replace("_", "-").lower() for line in lines}
        assert names - locked == set(), lock


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine():
    tied = re.compile(
        r"index-url|find-links|https?://[^ \"]*/(simple|packages)/|(?<![A-Za-z0-9_.])/(home|Users)/[a-z]"
    )
    here = Path(__file__).name
    found = [
        f"{name}: {match[0]}"
        for name, mode in tracked_files().items()
        if mode.startswith("100")
        and Path(name).name not in {here, "make_locks"}
        and (ROOT / name).exists()
        for match in tied.finditer((ROOT / name).read_text(errors="replace"))
    ]
    assert found == []


def test_the_version_is_the_installed_one():
    import wdsflow

    assert importlib.metadata.version("wdsflow") == wdsflow.__version__
    assert f"## {wdsflow.__version__}" in (ROOT / "CHANGELOG.md").read_text()
