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
from wdsflow.filtering.predicates.sample_facts import FACTS
from wdsflow.filtering.recipe.recipe_file import recipe_schema
from wdsflow.stages.scores.base import TIERS
from wdsflow.stages.scores.score_catalog import SCORES

_NOTE = "`scripts/gen_reference.py` writes this page."
_RECIPE = """# Recipes

A recipe is a file, in YAML or TOML, with the options that decide what [`filter`](filter.md) and `measure` write:

```yaml
# yaml-language-server: $schema=recipe.schema.json
stages:
- rename: {jpg: "jpg;png;jpeg"}
- json_text: {json_text_key: description;alt}
- clean_text
where: min_side >= 64 and caption_words >= 3 and not duplicate(among="kept")
scores: [blur, aspect_ratio]
```

Give it with `--recipe FILE`. Command-line flags take precedence. The `run.json` of an earlier run is a recipe too. `measure` ignores the predicate.
`wdsflow filter ... --print-recipe` prints the recipe that flags stand for.

[recipe.schema.json](recipe.schema.json), which `--print-schema` prints, lets editors complete and check recipes. An error message names the line and
the nearest valid name.

## Stages

`stages` run on each sample before it is scored: `rename`, `drop`, `json_text`, `clean_text`, `has_fields` and `sample`, with the same settings as in
a [pipeline](training-details.md#stages). The [Python reference](reference.md#stages) lists the settings.

Members that a stage changed, renamed or added are written again; all others keep their bytes. Samples that a stage drops are counted for that stage.
Samples that it cannot handle are quarantined.

## Keys

All keys are optional. `scripts/gen_reference.py` writes this page.
"""
_TITLES = {
    "header": "From the first bytes of the file",
    "text": "From the caption, the json and the names",
    "pixels": "From pixels",
    "model": "By models",
}


def commands() -> str:
    """Return the help of all commands as one page."""
    parts = [f"# Commands\n\nWhat `wdsflow COMMAND --help` prints. {_NOTE}\n"]
    parts += [f"## wdsflow {name}\n\n```text\n{_help(name)}\n```\n" for name in COMMANDS]
    return "\n".join(parts)


def _help(command: str) -> str:
    """Return what a command prints with --help, on a terminal of 100 columns without colours."""
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
    all_scores: list[Any] = sorted(
        {**FACTS, **SCORES}.values(), key=lambda score: (TIERS.index(score.tier), score.name)
    )
    links = "[filter](filter.md) and [predicates](predicates.md); how to add some: [custom scores](scores.md#a-custom-score)"
    parts = [f"# Scores\n\nWhat `wdsflow scores NAME` prints. How to use them: {links}.\n{_NOTE}\n"]
    for tier, title in _TITLES.items():
        parts.append(f"## {title}\n")
        parts += [_score(score) for score in all_scores if score.tier == tier]
    return "\n".join(parts)


def _score(score: Any) -> str:
    """Return the manual page of a score."""
    lines = [
        f"### {score.name}\n",
        f"*{_kind(score)}*\n",
        _markdown(inspect.cleandoc(score.__doc__ or "")),
        "",
    ]
    settings = [setting for setting in fields(score) if setting.default is not MISSING]
    texts = [f"`{setting.name}={setting.default!r}`" for setting in settings]
    if texts:
        lines.append(f"Settings: {', '.join(texts)}\n")
    return "\n".join(lines)


def _kind(score: Any) -> str:
    """Return the type of a score, its range, and what it needs, as text."""
    text = f"{score.kind} in {score.unit}" if score.unit else score.kind
    ends = ["" if end is None else f"{end:g}" for end in (score.low, score.high)]
    if any(ends):
        text += f", {' .. '.join(ends).strip()}"
    if score.needs:
        text += f"; needs the extra `{', '.join(score.needs)}`"
    if score.cpu_seconds is not None:
        text += f"; about {score.cpu_seconds:g} s of a CPU core for a sample"
    return str(text)


def _markdown(docstring: str) -> str:
    """Return a docstring as Markdown, with its code in single backticks.

    Other characters with a meaning in Markdown are escaped.
    """
    parts = re.split(r"``(.*?)``", docstring)
    for index, part in enumerate(parts):
        is_code = index % 2 == 1
        parts[index] = f"`{part}`" if is_code else re.sub(r"([<>*_\[\]])", r"\\\1", part)
    return "".join(parts)


def recipe() -> str:
    """Return how recipes are used, and their keys as a table."""
    rows = []
    for name, key in json.loads(recipe_schema())["properties"].items():
        kind = str(key.get("type", "")).replace("|", "")
        if key.get("enum"):
            kind = " or ".join(f"`{value}`" for value in key["enum"])
        default = ""
        if key.get("default"):
            default = f"`{json.dumps(key['default'])}`".replace("|", "\\|")
        row = f"| `{name}` | {kind} | {default} | {key['description']} |"
        rows.append(row.replace("txt|json", "txt\\|json"))
    head = f"{_RECIPE}\n| key | type | default | |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"
