"""The modules have floors: a module imports from its own floor or lower ones, never upwards."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.trees import parsed

pytestmark = pytest.mark.xdist_group("syntax trees")

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {
    "wdsflow.version": 0,
    "wdsflow.text": 0,
    "wdsflow.lazy": 0,
    "wdsflow.installed": 0,
    "wdsflow.old_objects": 0,
    "wdsflow.shards": 1,
    "wdsflow.engines": 1,
    "wdsflow.memory": 1,
    "wdsflow.images": 1,
    "wdsflow.media": 1,
    "wdsflow.process_database": 0,
    "wdsflow.tables": 1,
    "wdsflow.expressions": 2,
    "wdsflow.pieces": 2,
    "wdsflow.records": 2,
    "wdsflow.scan": 2,
    "wdsflow.table_files": 2,
    "wdsflow.mapping": 2,
    "wdsflow.stages": 2,
    "wdsflow.readers": 3,
    "wdsflow.example_shards": 3,
    "wdsflow.joining": 3,
    "wdsflow.models": 3,
    "wdsflow.pages": 3,
    "wdsflow.repair": 4,
    "wdsflow.indexing": 4,
    "wdsflow.validate": 5,
    "wdsflow.filtering": 5,
    "wdsflow.training": 7,
    "wdsflow.packing": 7,
    "wdsflow.reshaping": 7,
    "wdsflow.cli": 8,
}
# Floors inside the large rooms, lowest first: folders, and modules that stand beside them. "" is
# every other module there.
ROOMS = {
    "wdsflow.filtering": (
        "predicates",
        "recipe",
        "joined_samples",
        "samples",
        "ledger",
        "export",
        "deciding",
        "shard",
        "inputs",
        "page",
        "run_differences",
        "extendable_ledgers",
        "run_progress",
        "run_options",
        "run_record",
        "run_report",
        "score_costs",
        "passes",
        "",
    ),
    "wdsflow.shards": ("source", "cache", "tar", "samples"),
    "wdsflow.stages": ("imaging", "scores"),
    "wdsflow.stages.scores": ("comparing", "model"),
    "wdsflow.training": ("orders", "pixels", "stalls", "workers", "feed", "openclip", "launch"),
    "wdsflow.validate": (
        "finding",
        "tracing",
        "verdicts",
        "forecast",
        "checkup",
        "rules",
        "catalog",
        "pipeline",
        "advice",
        "report",
        "inspect",
        "run_check",
        "sampled",
    ),
    "wdsflow.validate.pipeline": (
        "values",
        "user_code",
        "meters",
        "reports",
        "run",
        "observed",
        "judge_pipeline",
        "loader",
        "checks",
        "check_loader",
    ),
}
FOLDERS = {"wdsflow": "wdsflow", "stages": "wdsflow.stages", "validate": "wdsflow.validate"}


def sources() -> Iterator[tuple[str, Path]]:
    """Yield (module name, file) for each module, without following the links."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name == "__main__.py":
                continue  # stands on the roof
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "wdsflow" and parts[0] in {"stages", "validate"}:
                continue
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def statements(tree: ast.AST, *, for_types: bool) -> Iterator[ast.AST]:
    """Yield all statements below a tree, those that only type checkers look at where asked for."""
    todo = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.expr):  # most nodes; they hold no statement
                continue
            if for_types or not (
                isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            ):
                yield node
                todo.append(node)


@cache
def imports_of(module: str, path: Path, *, for_types: bool = True) -> list[tuple[str, int]]:
    """Return (absolute name, leading dots) for each import of a module.

    Includes imports inside functions.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: list[tuple[str, int]] = []
    for node in statements(parsed(path), for_types=for_types):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            name = ".".join([*base, *([node.module] if node.module else [])])
            found.append((name, node.level))
            found += [
                (f"{name}.{alias.name}", node.level) for alias in node.names if alias.name != "*"
            ]
    return found


def room_of(name: str) -> str | None:
    return ".".join(name.split(".")[:2]) if name.startswith("wdsflow.") else None


MODULES = dict(sources())
KNOWN = set(MODULES)


def all_imports() -> Iterator[tuple[str, str | None, str, int]]:
    """Yield (module, its room, imported name, leading dots) for all imports of all modules."""
    for module, path in MODULES.items():
        for name, dots in imports_of(module, path):
            yield module, room_of(module), name, dots


def test_every_room_has_a_floor():
    rooms = {room for module in MODULES if (room := room_of(module))}
    assert rooms - set(FLOORS) == set()
    assert len(MODULES) > 20


def test_a_module_imports_from_its_own_room_or_from_lower_floors():
    upward = [
        (module, name)
        for module, mine, name, _ in all_imports()
        if module != "wdsflow"  # the door: it hands out names of all floors
        and (room := room_of(name)) in FLOORS
        and room != mine
        and FLOORS[room] >= FLOORS.get(mine or "", 0)
    ]
    assert upward == []


def test_rooms_at_the_top_import_their_own_modules_relatively():
    """With an absolute import, type checkers see each class twice.

    An import by the name of the folder makes two copies of the module.
    """
    wrong = [
        (module, name)
        for module, mine, name, dots in all_imports()
        if not dots
        and (
            name.split(".")[0] in {"stages", "validate"}
            or (
                mine in {"wdsflow.stages", "wdsflow.validate"}
                and (name + ".").startswith(f"{mine}.")
            )
        )
    ]
    assert wrong == []


def test_relative_imports_stay_inside_their_room():
    outside = [
        (module, name)
        for module, mine, name, dots in all_imports()
        if dots and not (name + ".").startswith(f"{mine or 'wdsflow'}.")
    ]
    assert outside == []


def test_modules_do_not_import_each_other_in_circles():
    """Imports in functions count; of packages on the way to a module, all run."""
    graph = {
        module: {
            target
            for name, _ in imports_of(module, path, for_types=False)
            for target in packages_on_the_way(name)
            if target != module and not module.startswith(f"{target}.")
        }
        for module, path in MODULES.items()
    }
    done: set[str] = set()

    def walk(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        if module not in done:
            for target in sorted(graph[module]):
                walk(target, (*trail, module))
            done.add(module)

    for module in graph:
        walk(module, ())


def arrows(room: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (importing child, imported child, module, imported module) for a room.

    A child is a folder or a module of the room.
    """
    for module, path in MODULES.items():
        if module.startswith(f"{room}."):
            for name, _ in imports_of(module, path):
                known = [
                    target for target in packages_on_the_way(name) if target.startswith(f"{room}.")
                ]
                if known and (here := child(room, module)) != (there := child(room, known[-1])):
                    yield here, there, module, known[-1]


def child(room: str, module: str) -> str:
    return module.removeprefix(f"{room}.").split(".")[0]


def is_folder(package: str) -> bool:
    return package in MODULES and MODULES[package].name == "__init__.py"


@pytest.mark.parametrize(
    "room", [each for each in MODULES if is_folder(each) and each != "wdsflow"]
)
def test_folders_of_a_room_do_not_import_each_other(room: str):
    graph: dict[str, dict[str, str]] = {}
    for here, there, module, target in arrows(room):
        if is_folder(f"{room}.{here}") and is_folder(f"{room}.{there}"):
            graph.setdefault(here, {})[there] = f"{module} -> {target}"

    def walk(folder: str, trail: tuple[str, ...]) -> None:
        ring = [*trail[trail.index(folder) :], folder] if folder in trail else []
        assert not ring, [graph[here][there] for here, there in pairwise(ring)]
        for there in graph.get(folder, {}):
            walk(there, (*trail, folder))

    for folder in graph:
        walk(folder, ())


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_imports_from_lower_floors_of_its_room(room: str):
    floors = {name: floor for floor, name in enumerate(ROOMS[room])}
    children = {child(room, module) for module in MODULES if module.startswith(f"{room}.")}
    assert (
        {name for name in children if is_folder(f"{room}.{name}")} <= set(floors) <= children | {""}
    )
    upper = floors.get("")
    upward = [
        (module, target)
        for here, there, module, target in arrows(room)
        if (mine := floors.get(here, upper)) is not None
        and (other := floors.get(there, upper)) is not None
        if mine < other
    ]
    assert upward == []


def packages_on_the_way(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(2, len(parts) + 1):
        if (some := ".".join(parts[:length])) in KNOWN:
            yield some
