"""The page of the Python API: signatures and docstrings of the public names, read from the source without importing it."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import wdsflow

SECTIONS = {
    "Validate": "wdsflow.validate",
    "Pack": "wdsflow.packing",
    "Repair": "wdsflow.repair",
    "Filter": "wdsflow.filtering",
    "Index": "wdsflow.indexing",
    "Train": "wdsflow.training",
    "Read urls with webdataset": "wdsflow.readers.gopen",
    "Map": "wdsflow.mapping",
    "Stages": "wdsflow.stages",
}
_HEAD = """# Python reference

These names are public: `wdsflow.check` needs `import wdsflow`, and `wdsflow.validate.Report` needs `import wdsflow.validate`. All other names
are private and may change. `scripts/gen_reference.py` writes this page from the docstrings.
"""
_PARTS = {
    "Args:": "Arguments",
    "Attributes:": "Attributes",
    "Returns:": "Returns",
    "Yields:": "Yields",
    "Raises:": "Raises",
}
_ITEM = re.compile(r"([\w*, ]+): (.*)")
# Described once, by the base classes.
_OF_EVERY_STAGE = frozenset({"reads", "writes", "removes", "apply"})
_WIDTH = 100
Definition = ast.FunctionDef | ast.ClassDef


def reference() -> str:
    """Return the page, as Markdown."""
    pages = [_HEAD]
    for title, package in SECTIONS.items():
        pages.append(f"## {title}\n")
        for name in sorted(
            _offered(package), key=lambda name: (name not in wdsflow.__all__, name.lower())
        ):
            node, options = _definition(package, name), None
            for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(each, ast.Call) and ast.unparse(each.func) == "keywords":
                    options = _definition(_place(package, name), ast.unparse(each.args[0]))
            if node is not None:
                pages += _entry(
                    node,
                    f"wdsflow.{name}" if name in wdsflow.__all__ else f"{package}.{name}",
                    options,
                )
    return "\n".join(pages)


def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    return ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))


def _offered(package: str) -> list[str]:
    """Return ``__all__`` of a package."""
    for node in _tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return cast("list[str]", ast.literal_eval(node.value))
    raise ValueError(f"{package} has no __all__")


def _definition(module: str, name: str) -> Definition | None:
    """Follow imports to a function or a class; None for anything else, such as a table."""
    for node in ast.walk(_tree(_place(module, name))):
        if isinstance(node, Definition) and node.name == name:
            return node
    return None


def _place(module: str, name: str) -> str:
    """Follow imports to the module that defines a name."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            spec = find_spec(module)
            package = (
                module
                if spec is not None and spec.submodule_search_locations
                else module.rpartition(".")[0]
            )
            parents = (
                package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            )
            return _place(".".join([*parents, *([node.module] if node.module else [])]), name)
    return module


def _entry(node: Definition, name: str, options: Definition | None) -> Iterator[str]:
    yield f"### `{name}`\n"
    if isinstance(node, ast.FunctionDef):
        yield f"```python no-run\n{_call(node, name.rpartition('.')[2], options=options)}\n```\n"
    elif fields := list(_fields(node)):
        yield (
            "```python no-run\n"
            + "\n".join([f"class {node.name}:", *(f"    {each}" for each in fields)])
            + "\n```\n"
        )
    yield _markdown(_documented(node, options if isinstance(options, ast.ClassDef) else node))
    for method in _methods(node):
        is_property = "property" in map(ast.unparse, method.decorator_list)
        yield f"#### `{method.name if is_property else _call(method, method.name, width=10_000)}`\n"
        yield _markdown(ast.get_docstring(method) or "")


def _documented(node: Definition, options: Definition) -> str:
    """Return a docstring in which options have their help, after the arguments or attributes that it describes."""
    text = ast.get_docstring(node) or ""
    described = [f"    {name}: {about[:1].lower()}{about[1:]}" for name, about in _helps(options)]
    if not described:
        return text
    if options is not node:
        others = (
            (ast.get_docstring(options) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        )
        return re.sub(
            r"    \w+: each is a keyword argument\.",
            lambda _: "\n".join([*described, others]).rstrip(),
            text,
        )
    head, mark, rest = text.partition("Attributes:\n")
    return "\n".join([head.rstrip(), "", "Attributes:", *described, *([rest] if mark else [])])


def _helps(node: Definition) -> Iterator[tuple[str, str]]:
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(each, ast.AnnAssign) and (about := _option(each)) is not None:
            yield ast.unparse(each.target), ast.literal_eval(about.args[about.func.id == "option"])  # type: ignore[attr-defined]


def _option(node: ast.AnnAssign) -> ast.Call | None:
    """Return the call that makes an option of a field; several commands share some, each made by a function."""
    made = node.value
    if isinstance(made, ast.Call) and (name := ast.unparse(made.func)).endswith("_option"):
        shared = _definition("wdsflow.text.options", name)
        made = (
            next(each.value for each in shared.body if isinstance(each, ast.Return))
            if shared
            else made
        )
    is_option = isinstance(made, ast.Call) and ast.unparse(made.func) in ("option", "required")
    return made if is_option and isinstance(made, ast.Call) else None


def _methods(node: Definition) -> Iterator[ast.FunctionDef]:
    """Yield the public methods and properties of a class that have a docstring."""
    told = _OF_EVERY_STAGE if node.name not in {"Stage", "SampleStage"} else frozenset()
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        if (
            isinstance(each, ast.FunctionDef)
            and each.name not in told
            and not each.name.startswith("_")
        ):
            yield each


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a dataclass or a NamedTuple with their types and defaults."""
    kinds = [ast.unparse(each) for each in [*node.decorator_list, *node.bases]]
    if any(kind.startswith("dataclass") or kind == "NamedTuple" for kind in kinds):
        for each in node.body:
            text = _field(each) if isinstance(each, ast.AnnAssign) else "_"
            if not text.startswith("_") and ": ClassVar" not in text:
                yield text


def _field(node: ast.AnnAssign) -> str:
    """Return a field with its type and default."""
    made = _option(node)
    # A name that is imported only for types.
    if isinstance(node.annotation, ast.Constant):
        node.annotation = ast.parse(str(node.annotation.value), mode="eval").body
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "field":
        typed = f"{ast.unparse(node.target)}: {_source(node.annotation)}"
        for keyword in node.value.keywords:
            if keyword.arg == "default":
                return f"{typed} = {_source(keyword.value)}"
        # How a dataclass makes an empty list is of no use to its users.
        return typed
    if made is None:
        return _source(node)
    default = f" = {_source(made.args[0])}" if ast.unparse(made.func) == "option" else ""
    return f"{ast.unparse(node.target)}: {_source(node.annotation)}{default}"


def _call(
    node: ast.FunctionDef, name: str, width: int = _WIDTH, options: Definition | None = None
) -> str:
    """Return a signature, on one line if it fits; ``options``: the class whose fields are keyword arguments."""
    if isinstance(options, ast.ClassDef):
        own = [_source(each) for each in node.args.args[:-1]]
        fields = [_field(each) for each in options.body if isinstance(each, ast.AnnAssign)]
        is_open = "_: KW_ONLY" in fields
        every = [
            *own,
            *([] if is_open else ["*"]),
            *("*" if each == "_: KW_ONLY" else each for each in fields),
        ]
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return "\n".join([f"{name}(", *(f"    {each}," for each in every), f"){returns}"])
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = re.sub(r"\((self|cls)(, )?", "(", f"{name}({_source(node.args)})")
    line = re.sub(r"(?<=[\w\]])=(?=[^=])", " = ", line)
    if len(line + returns) <= width:
        return line + returns
    inside = _split(line[len(name) + 1 : -1])
    return "\n".join([f"{name}(", *(f"    {each}," for each in inside), f"){returns}"])


def _source(node: ast.AST) -> str:
    """Return code with the quotes that the formatter wants: it formats the page, too."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', ast.unparse(node))


def _split(arguments: str) -> list[str]:
    """Split at the commas outside of brackets.

    >>> _split("a: dict[str, int], b: int = (1, 2)")
    ['a: dict[str, int]', 'b: int = (1, 2)']
    """
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _markdown(docstring: str) -> str:
    """Return a docstring as Markdown: its sections become lists, its examples code."""
    lines: list[str] = []
    part = example = False
    for line in [*inspect.cleandoc(docstring).replace("``", "`").splitlines(), ""]:
        text = line.strip()
        indented = len(line) - len(line.lstrip())
        if example != (text.startswith(">>>") or (example and bool(text))):
            lines.append("```" if example else "```python no-run")
            example = not example
        if example:
            lines.append(line.partition("  # doctest")[0])
        elif line in _PARTS:
            part = True
            lines += [f"**{_PARTS[line]}**", ""]
        elif part and indented == 4 and (item := _ITEM.fullmatch(text)):
            lines.append(f"* `{item[1]}`: {item[2]}")
        elif part and (indented or not text):
            lines.append(f"  {text}" if indented > 4 else text)
        else:
            part = False
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"
