"""The pages of the commands, of the scores and of the keys of a recipe, from the code."""

import contextlib
import inspect
import io
import json
import os
import re
from dataclasses import MISSING, fields
from typing import Any

from wdsflow.cli.main import COMMANDS, main
from wdsflow.filtering.recipe.recipe_file import schema
from wdsflow.filtering.where.known_facts import FACTS
from wdsflow.stages.scores.base import TIERS
from wdsflow.stages.scores.score_catalog import SCORES

_WRITTEN = "`scripts/gen_reference.py` writes this page."
_TITLES = {
    "header": "From the first bytes of the file",
    "text": "From the caption, the json and the names",
    "pixels": "From pixels",
    "model": "By models",
}


def commands() -> str:
    """Return the help of all commands as one page."""
    parts = [f"# Commands\n\nWhat `wdsflow COMMAND --help` prints. {_WRITTEN}\n"]
    parts += [f"## wdsflow {name}\n\n```text\n{_help(name)}\n```\n" for name in COMMANDS]
    return "\n".join(parts)


def _help(command: str) -> str:
    out = io.StringIO()
    before = dict(os.environ)
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([command, "--help"])
    finally:
        os.environ.clear()
        os.environ |= before
    return out.getvalue().strip()


def scores() -> str:
    """Return the manual pages of all scores, the cheap ones first."""
    known: list[Any] = sorted({**FACTS, **SCORES}.values(), key=lambda score: (TIERS.index(score.tier), score.name))
    links = "[filter](filter.md); how to add some: [custom scores](scores.md#a-custom-score)"
    parts = [f"# Scores\n\nWhat `wdsflow scores NAME` prints. How to use them: {links}.\n{_WRITTEN}\n"]
    for tier, title in _TITLES.items():
        parts.append(f"## {title}\n")
        parts += [_score(score) for score in known if score.tier == tier]
    return "\n".join(parts)


def _score(score: Any) -> str:
    about = f"{score.kind} in {score.unit}" if score.unit else score.kind
    ends = ["" if end is None else f"{end:g}" for end in (score.low, score.high)]
    about += f", {' .. '.join(ends).strip()}" if any(ends) else ""
    about += f"; needs the extra `{', '.join(score.needs)}`" if score.needs else ""
    lines = [f"### {score.name}\n", f"*{about}*\n", _markdown(inspect.cleandoc(score.__doc__ or "")), ""]
    settings = [f"`{each.name}={each.default!r}`" for each in fields(score) if each.default is not MISSING]
    return "\n".join([*lines, *([f"Settings: {', '.join(settings)}\n"] if settings else [])])


def _markdown(docstring: str) -> str:
    """Return a docstring with its code between single backticks, and no other sign that Markdown takes for its own."""
    parts = re.split(r"``(.*?)``", docstring)
    text = [re.sub(r"([<>*_\[\]])", r"\\\1", part) if at % 2 == 0 else f"`{part}`" for at, part in enumerate(parts)]
    return "".join(text)


def recipe() -> str:
    """Return the keys of a recipe as a table."""
    rows = []
    for name, about in json.loads(schema())["properties"].items():
        kind = " or ".join(f"`{each}`" for each in about.get("enum", ())) or str(about.get("type", "")).replace("|", "")
        default = f"`{json.dumps(about['default'])}`".replace("|", "\\|") if about.get("default") else ""
        rows.append(f"| `{name}` | {kind} | {default} | {about['description']} |".replace("txt|json", "txt\\|json"))
    head = (
        "# Recipe\n\nThe keys of a recipe, in YAML or TOML. All are optional. Command-line flags take precedence. For editors, the same is\n"
        "[recipe.schema.json](recipe.schema.json). How to use recipes: [filter](filter.md#recipes). To see the recipe that flags stand for:\n"
        "`wdsflow filter ... --print-recipe`.\n\n| key | type | default | |\n|---|---|---|---|\n"
    )
    return (
        head
        + "\n".join(rows)
        + f"\n\nThe stages and their settings are in the [Python reference](reference.md#stages). {_WRITTEN}\n"
    )
