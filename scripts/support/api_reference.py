"""The page of the Python API: signatures and docstrings of the public names.

They are read from the source, without importing it.
"""

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
# Sections of docstrings.
_TITLES = {
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
    parts = [_HEAD]
    for title, package in SECTIONS.items():
        parts.append(f"## {title}\n")
        # First the names that wdsflow itself has.
        names = sorted(
            _public_names(package), key=lambda name: (name not in wdsflow.__all__, name.lower())
        )
        for name in names:
            node = _definition(package, name)
            if node is None:
                continue
            is_top_level = name in wdsflow.__all__
            full_name = f"wdsflow.{name}" if is_top_level else f"{package}.{name}"
            parts += _entry(node, full_name, _options_of(node, _defining_module(package, name)))
    return "\n".join(parts)


def _options_of(node: Definition, module: str) -> Definition | None:
    """Return the options class that a function names in its decorator ``keywords``.

    The fields of this class are keyword arguments of the function. None without such a decorator.
    """
    if not isinstance(node, ast.FunctionDef):
        return None
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "keywords":
            return _definition(module, ast.unparse(decorator.args[0]))
    return None


def _tree(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    spec = find_spec(module)
    return ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))


def _public_names(package: str) -> list[str]:
    """Return ``__all__`` of a package."""
    for node in _tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return cast("list[str]", ast.literal_eval(node.value))
    raise ValueError(f"{package} has no __all__")


def _definition(module: str, name: str) -> Definition | None:
    """Follow imports to a function or a class; None for anything else, such as a table."""
    module = _defining_module(module, name)
    for node in ast.walk(_tree(module)):
        if isinstance(node, Definition) and node.name == name:
            if isinstance(node, ast.ClassDef):
                node.body += _inherited_options(node, module)
            return node
    return None


def _inherited_options(node: ast.ClassDef, module: str) -> Iterator[ast.AnnAssign]:
    """Yield the fields of base classes that are options."""
    for base in node.bases:
        definition = _definition(module, ast.unparse(base))
        if isinstance(definition, ast.ClassDef):
            for field in definition.body:
                if isinstance(field, ast.AnnAssign) and _option(field) is not None:
                    yield field


def _defining_module(module: str, name: str) -> str:
    """Follow imports to the module that defines a name."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _defining_module(_imported_module(module, node), name)
    return module


def _imported_module(module: str, node: ast.ImportFrom) -> str:
    """Return the full name of the module that an import in ``module`` names."""
    parts: list[str] = []
    if node.level:
        spec = find_spec(module)
        is_package = spec is not None and spec.submodule_search_locations
        package = module if is_package else module.rpartition(".")[0]
        parents = package.split(".")
        parts += parents[: len(parents) + 1 - node.level]
    if node.module:
        parts.append(node.module)
    return ".".join(parts)


def _entry(node: Definition, name: str, options: Definition | None) -> Iterator[str]:
    """Yield the parts of the page about a name."""
    yield f"### `{name}`\n"
    if isinstance(node, ast.FunctionDef):
        yield _code_block(_call(node, name.rpartition(".")[2], options=options))
    else:
        fields = [f"    {field}" for field in _fields(node)]
        if fields:
            yield _code_block("\n".join([f"class {node.name}:", *fields]))
    yield _markdown(_documented(node, options if isinstance(options, ast.ClassDef) else node))
    for method in _methods(node):
        is_property = "property" in map(ast.unparse, method.decorator_list)
        title = method.name if is_property else _call(method, method.name, width=10_000)
        yield f"#### `{title}`\n"
        yield _markdown(ast.get_docstring(method) or "")


def _code_block(code: str) -> str:
    return f"```python no-run\n{code}\n```\n"


def _documented(node: Definition, options: Definition) -> str:
    """Return a docstring with the help of its options added.

    The help follows the arguments or attributes that the docstring describes.
    """
    text = ast.get_docstring(node) or ""
    lines: list[str] = []
    for name, help_text in _helps(options):
        lines.append(f"    {name}: {help_text[:1].lower()}{help_text[1:]}")
    if not lines:
        return text
    if options is not node:
        docstring = ast.get_docstring(options) or ""
        other_fields = docstring.partition("Attributes:\n")[2].partition("\n\n")[0]
        arguments = "\n".join([*lines, other_fields]).rstrip()
        return re.sub(r"    \w+: each is a keyword argument\.", lambda _: arguments, text)
    head, heading, rest = text.partition("Attributes:\n")
    if heading:
        lines.append(rest)
    return "\n".join([head.rstrip(), "", "Attributes:", *lines])


def _helps(node: Definition) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of each option among the fields of a class."""
    if not isinstance(node, ast.ClassDef):
        return
    for field in node.body:
        option = _option(field) if isinstance(field, ast.AnnAssign) else None
        if option is not None:
            assert isinstance(field, ast.AnnAssign)
            # Before its help, an option has a default; a required one has none.
            has_default = ast.unparse(option.func) == "option"
            yield ast.unparse(field.target), ast.literal_eval(option.args[has_default])


def _option(node: ast.AnnAssign) -> ast.Call | None:
    """Return the call that makes an option of a field, or None.

    Options that several commands share are each made by a function; its return value is used.
    """
    value = node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("_option"):
        shared = _definition("wdsflow.text.options", ast.unparse(value.func))
        if shared is not None:
            value = next(line.value for line in shared.body if isinstance(line, ast.Return))
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("option", "required"):
        return value
    return None


def _methods(node: Definition) -> Iterator[ast.FunctionDef]:
    """Yield the public methods and properties of a class that have a docstring."""
    if not isinstance(node, ast.ClassDef):
        return
    is_base = node.name in {"Stage", "SampleStage"}
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
            continue
        if is_base or method.name not in _OF_EVERY_STAGE:
            yield method


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a dataclass or a NamedTuple with their types and defaults."""
    kinds = [ast.unparse(kind) for kind in [*node.decorator_list, *node.bases]]
    if not any(kind.startswith("dataclass") or kind == "NamedTuple" for kind in kinds):
        return
    for line in node.body:
        if not isinstance(line, ast.AnnAssign):
            continue
        text = _field(line)
        if not text.startswith("_") and ": ClassVar" not in text:
            yield text


def _field(node: ast.AnnAssign) -> str:
    """Return a field with its type and default."""
    option = _option(node)
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
    if option is None:
        return _source(node)
    default = f" = {_source(option.args[0])}" if ast.unparse(option.func) == "option" else ""
    return f"{ast.unparse(node.target)}: {_source(node.annotation)}{default}"


def _call(
    node: ast.FunctionDef, name: str, width: int = _WIDTH, options: Definition | None = None
) -> str:
    """Return a signature, on one line if it fits.

    ``options``: the class whose fields are keyword arguments.
    """
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if isinstance(options, ast.ClassDef):
        return _lines_of_call(name, _with_options(node, options), returns)
    line = re.sub(r"\((self|cls)(, )?", "(", f"{name}({_source(node.args)})")
    line = re.sub(r"(?<=[\w\]])=(?=[^=])", " = ", line)
    if len(line + returns) <= width:
        return line + returns
    return _lines_of_call(name, _split(line[len(name) + 1 : -1]), returns)


def _with_options(node: ast.FunctionDef, options: ast.ClassDef) -> list[str]:
    """Return a function's parameters, with the last one replaced by the fields of its options."""
    parameters = [_source(parameter) for parameter in node.args.args[:-1]]
    fields = [_field(field) for field in options.body if isinstance(field, ast.AnnAssign)]
    if "_: KW_ONLY" not in fields:
        parameters.append("*")
    return parameters + ["*" if field == "_: KW_ONLY" else field for field in fields]


def _lines_of_call(name: str, parameters: list[str], returns: str) -> str:
    """Return a signature with a parameter a line."""
    lines = [f"    {parameter}," for parameter in parameters]
    return "\n".join([f"{name}(", *lines, f"){returns}"])


def _source(node: ast.AST) -> str:
    """Return code with the quotes that the formatter wants: it formats the page, too."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', ast.unparse(node))


def _split(arguments: str) -> list[str]:
    """Split at the commas outside of brackets.

    >>> _split("a: dict[str, int], b: int = (1, 2)")
    ['a: dict[str, int]', 'b: int = (1, 2)']
    """
    parts = [""]
    depth = 0
    for character in arguments:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _markdown(docstring: str) -> str:
    """Return a docstring as Markdown: its sections become lists, its examples code."""
    lines: list[str] = []
    in_section = False
    in_example = False
    text_lines = inspect.cleandoc(docstring).replace("``", "`").splitlines()
    # A last empty line ends an example.
    for line in [*text_lines, ""]:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        is_example = text.startswith(">>>") or (in_example and bool(text))
        if is_example != in_example:
            lines.append("```python no-run" if is_example else "```")
            in_example = is_example
        if in_example:
            lines.append(line.partition("  # doctest")[0])
        elif line in _TITLES:
            in_section = True
            lines += [f"**{_TITLES[line]}**", ""]
        elif in_section and indent == 4 and (item := _ITEM.fullmatch(text)):
            lines.append(f"* `{item[1]}`: {item[2]}")
        elif in_section and (indent or not text):
            lines.append(f"  {text}" if indent > 4 else text)
        else:
            in_section = False
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"
