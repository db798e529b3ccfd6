"""The models that the installed open_clip knows, by its own files: importing it takes seconds."""

import ast
import difflib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from wdsflow.text.words import enumeration

_ELSEWHERE = "hf-hub:"
_FOLDER = "local-dir:"
# Such a model has the tags that were trained with that activation.
_QUICK = "-quickgelu"
_NEAREST = 3

_LISTING = 'to list them: python -c "import open_clip; print(*open_clip.list_models())"'


def why_no_model(name: str, pretrained: str) -> str:
    """Return why open_clip_train would not make a model, "" if it would, or if that is not known.

    Args:
        name: ``--model``.
        pretrained: ``--pretrained``: a tag or a file; may be empty.
    """
    if name.startswith(_FOLDER):
        folder = name.removeprefix(_FOLDER)
        return "" if os.path.isdir(folder) else f"--model {name}: no such folder"
    known = model_names()
    if name.startswith(_ELSEWHERE) or not known:
        return ""
    plain = name.replace("/", "-")
    if plain not in known:
        near = difflib.get_close_matches(plain, sorted(known), _NEAREST)
        meant = f"did you mean {enumeration(near).replace(' and ', ' or ')}?" if near else _LISTING
        return f"--model {name}: open_clip has no such model; {meant}"
    tags = pretrained_tags().get(plain, ())
    if not pretrained or os.path.isfile(pretrained) or pretrained.lower().replace("-", "_") in tags:
        return ""
    if not tags:
        return f"--pretrained {pretrained}: no such file, and open_clip has no weights of {name}"
    near = difflib.get_close_matches(pretrained, sorted(tags), _NEAREST) or sorted(tags)[:_NEAREST]
    return f"--pretrained {pretrained}: no such file, and no weights of {name}; it has {enumeration(near)}"


@cache
def model_names() -> frozenset[str]:
    """Return the names of the models with a config in open_clip; empty if it is not installed."""
    folder = _package()
    return (
        frozenset(path.stem for path in folder.glob("model_configs/*.json"))
        if folder is not None
        else frozenset()
    )


@cache
def pretrained_tags() -> Mapping[str, frozenset[str]]:
    """Return the tags of the weights that open_clip can download, by the name of the model."""
    values = _assigned("pretrained.py")
    tags: dict[str, frozenset[str]] = {}
    models = values.get("_PRETRAINED")
    if models is None:
        return tags
    for name, config in _items(models):
        if isinstance(config, ast.Name):
            # The name of a dict that is assigned before.
            config = values.get(config.id, config)  # noqa: PLW2901
        configs = dict(_items(config))
        tags[name] = frozenset(configs)
        quick = {tag for tag, value in configs.items() if _is_quick(value)}
        if quick:
            tags[name + _QUICK] = tags.get(name + _QUICK, frozenset()) | quick
    return tags


def _assigned(file: str) -> dict[str, ast.expr]:
    """Return the values that a file of open_clip assigns to names; none if it cannot be read."""
    folder = _package()
    if folder is None:
        return {}
    try:
        tree = ast.parse((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    values: dict[str, ast.expr] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Name):
                values[target.id] = statement.value
    return values


def _items(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and values of ``{...}`` or ``dict(...)`` in source code."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield str(key.value), value
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield keyword.arg, keyword.value


def _is_quick(node: ast.expr) -> bool:
    flags = dict(_items(node)) if isinstance(node, ast.Call) else {}
    quick = flags.get("quick_gelu")
    return isinstance(quick, ast.Constant) and quick.value is True


def _package() -> Path | None:
    spec = importlib.util.find_spec("open_clip")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None
