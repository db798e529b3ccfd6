"""Small functions, light imports."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.fork_server import new_python
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    path
    for folder in ("wdsflow", "stages", "validate", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not (folder == "wdsflow" and path.relative_to(ROOT).parts[1] in {"stages", "validate"})
]
PUBLIC = [
    f"wdsflow.{name}"
    for name in ("filtering", "mapping", "repair", "stages", "training", "validate")
]
# Lines of code: neither comments nor docstrings count.
LONGEST_FUNCTION = 60
HEAVY = {
    "PIL",
    "datasets",
    "fsspec",
    "jsonschema",
    "numpy",
    "open_clip",
    "open_clip_train",
    "pandas",
    "pyarrow",
    "ray",
    "simplejpeg",
    "torch",
    "torchvision",
    "transformers",
    "webdataset",
}


def test_functions_are_short():
    too_long: dict[str, set[str]] = {}
    for path in FILES:
        for node in nodes(path):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and length(node, path) > LONGEST_FUNCTION
            ):
                too_long.setdefault(str(path.relative_to(ROOT)), set()).add(node.name)
    assert too_long == {}


def length(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> int:
    """Return the lines of code of a function, without its docstring."""
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        first = node.body[1] if len(node.body) > 1 else first
    lines = path.read_text(encoding="utf-8").splitlines()[first.lineno - 1 : node.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after a statement."""
    script = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    run = [sys.executable, "-c", script]
    with new_python():
        done = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", ["wdsflow", "wdsflow.shards", *PUBLIC])
def test_importing_the_package_imports_nothing_heavy(module):
    assert imported_by(f"import {module}") & (HEAVY | {"rich", "click"}) == set()


@pytest.mark.parametrize("package", ["wdsflow", *PUBLIC])
def test_a_package_has_what_it_says_that_it_offers_and_nothing_of_any_other_name(package):
    offered = import_module(package)
    assert [name for name in offered.__all__ if getattr(offered, name, None) is None] == []
    # What completes names in a shell.
    assert set(offered.__all__) <= set(dir(offered))
    assert not hasattr(offered, "nonsense")


def test_tests_import_public_names_from_where_they_are_public():
    public: dict[str, tuple[str, object]] = {}
    for package in ("wdsflow", *PUBLIC, "wdsflow.stages.scores"):
        module = import_module(package)
        for name in module.__all__:
            public.setdefault(name, (package, getattr(module, name)))
    by_path: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in nodes(path):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "wdsflow"
            ):
                continue
            for alias in node.names:
                package, offered = public.get(alias.name, (node.module, None))
                if package != node.module and (
                    getattr(import_module(node.module), alias.name, None) is offered
                ):
                    by_path.add(f"{path.relative_to(ROOT)}: {alias.name} is in {package}")
    assert by_path == set()


@pytest.mark.parametrize("arguments", [["--help"], ["validate", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    statement = f"""
sys.argv = ["wdsflow", *{arguments!r}]
from wdsflow.cli.main import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
    assert imported_by(statement) & HEAVY == set()


def test_helpers_of_tests_have_no_doctests() -> None:
    """They are not collected: see ``pytest_ignore_collect`` in tests/conftest.py."""
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    assert [path.name for path in helpers if "\n>>> " in path.read_text("utf-8")] == []
    assert [path.name for path in helpers if "    >>> " in path.read_text("utf-8")] == []
