"""The house has floors: a module imports from its own floor's folder or from lower floors, never upwards."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.trees import parsed

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {
    "wdsflow.text": 0,
    "wdsflow.lazy": 0,
    "wdsflow.shards": 1,
    "wdsflow.engines": 1,
    "wdsflow.memory": 1,
    "wdsflow.images": 1,
    "wdsflow.media": 1,
    "wdsflow.scan": 2,
    "wdsflow.mapping": 2,
    "wdsflow.stages": 2,
    "wdsflow.readers": 3,
    "wdsflow.models": 3,
    "wdsflow.pages": 3,
    "wdsflow.repair": 4,
    "wdsflow.indexing": 4,
    "wdsflow.validate": 5,
    "wdsflow.filtering": 5,
    "wdsflow.training": 6,
    "wdsflow.bisection": 6,
    "wdsflow.reshaping": 6,
    "wdsflow.serving": 7,
    "wdsflow.cli": 8,
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
            if for_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                yield node
                todo.append(node)


@cache
def imports_of(module: str, path: Path, *, for_types: bool = True) -> list[tuple[str, int]]:
    """Return (absolute name, dots of the import statement) for each import of a module, those in functions included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: list[tuple[str, int]] = []
    for node in statements(parsed(path), for_types=for_types):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found.append((name, node.level))
            found += [(f"{name}.{alias.name}", node.level) for alias in node.names if alias.name != "*"]
    return found


def room_of(name: str) -> str | None:
    return ".".join(name.split(".")[:2]) if name.startswith("wdsflow.") else None


def is_package(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


MODULES = dict(sources())
KNOWN = set(MODULES)


def all_imports() -> Iterator[tuple[str, str | None, str, int]]:
    """Yield (module, its room, what it imports, dots of the import statement) for each import of each module."""
    for module, path in MODULES.items():
        for name, dots in imports_of(module, path):
            yield module, room_of(module), name, dots


def test_every_room_has_a_floor():
    rooms = {room for module in MODULES if (room := room_of(module))}
    assert rooms - set(FLOORS) == set()
    assert len(MODULES) > 20


def test_contributors_are_told_every_floor():
    folders = {package: folder for folder, package in FOLDERS.items()}
    rooms = {room for module in MODULES if (room := room_of(module))}
    rows = {
        f"| {FLOORS[room]} | `{folders.get(room, room.replace('.', '/'))}{'/' if is_package(room) else '.py'}` |"
        for room in rooms
    }
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {row for row in rows if row not in text} == set()


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
    """An absolute import there makes type checkers see each class twice; by the folder's name, it makes two copies."""
    wrong = [
        (module, name)
        for module, mine, name, dots in all_imports()
        if not dots
        and (
            name.split(".")[0] in {"stages", "validate"}
            or (mine in {"wdsflow.stages", "wdsflow.validate"} and (name + ".").startswith(f"{mine}."))
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


LONGEST_CHAIN = 15  # files, the first and the last included


def test_no_chain_of_imports_is_too_long_to_follow():
    """Imports in functions count; those that only type checkers look at do not."""
    chains: dict[str, list[str]] = {}

    def chain(module: str) -> list[str]:
        if module not in chains:
            names = [name for name, _ in imports_of(module, MODULES[module], for_types=False)]
            outer = {name.rpartition(".")[0] for name in names if name in KNOWN}
            targets = {name for name in names if name in KNOWN} - outer - {module}
            chains[module] = [module, *max(map(chain, sorted(targets)), key=len, default=[])]
        return chains[module]

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)


def packages_on_the_way(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(2, len(parts) + 1):
        if (some := ".".join(parts[:length])) in KNOWN:
            yield some


def test_each_room_says_what_belongs_there():
    silent = [
        module for module, path in MODULES.items() if path.name == "__init__.py" and not ast.get_docstring(parsed(path))
    ]
    assert silent == []


def test_a_file_name_says_what_is_in_it_without_its_folder():
    names = Counter(path.name for path in MODULES.values() if path.name not in {"__init__.py", "base.py"})
    commands = {path.name for path in MODULES.values() if path.parent.name == "cli"}  # named as the command is
    assert {name for name, count in names.items() if count > 1} - commands == set()


def test_a_class_has_a_name_of_its_own():
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == set()
