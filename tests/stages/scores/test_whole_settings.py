"""The settings that each score accepts, and the messages for all others.

``golden_file`` explains how to update the expected text.
"""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from tests.golden_file import check_text
from tests.stages.scores.test_catalog import SETTINGS
from wdsflow.stages.scores import SCORES, make_score

GOLDEN = Path(__file__).parent / "settings.txt"
NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 5, 8, 11, 17, 33, 65, 129, 1000, 1_000_000]
SHARES: list[Any] = [-0.1, 0.0, 0.3, 0.999, 1.0, 1.1, 90.0, float("nan"), 1]
TEXTS: list[Any] = [
    "",
    " ",
    ";",
    "a",
    "a;b",
    "a;a",
    "json:",
    "json:a",
    "*.x",
    "none",
    "max",
    "min",
    "mean",
    "key",
    "all",
    "nosuch/file",
    "a@b",
    1,
]
SHARED = (
    "image",
    "video",
    "caption",
    "decode",
    "sampling",
    "frames",
    "model",
    "pretrained",
    "precision",
    "among",
)
FIRST = {
    shared: next(
        name for name in SCORES if shared in {field.name for field in fields(SCORES[name])}
    )
    for shared in SHARED
}


def tried(default: Any) -> list[Any]:
    """Return values of the type of a setting, and one of another type."""
    if isinstance(default, bool):
        return [True, False, 1, "yes"]
    return (
        [*NUMBERS, "3"]
        if isinstance(default, int)
        else [*SHARES, "0.5"]
        if isinstance(default, float)
        else TEXTS
    )


@pytest.mark.parametrize("name", SCORES)
def test_each_setting_takes_these_values(name: str) -> None:
    settings: dict[str, Any] = SETTINGS.get(name, {})
    given = {key: value for key, value in settings.items() if value != __file__}
    lines = [f"kind {SCORES[name].kind}, tier {SCORES[name].tier}"]
    for field in fields(SCORES[name]):
        if not field.init or (field.name in SHARED and FIRST[field.name] != name):
            continue
        default = "" if field.default is MISSING else field.default
        outcomes: dict[str, list[str]] = {}
        for value in tried(default):
            try:
                score = make_score(name, **{**given, field.name: value})
                kept = getattr(score, field.name)
                said = "taken" if repr(kept) == repr(value) else f"taken as {kept!r}"
            except (OSError, TypeError, ValueError) as error:
                said = str(error)
            shown = repr(value) if isinstance(value, str) else f"={value!r}"
            outcomes.setdefault(
                said.replace(shown, "=VALUE" if shown[0] == "=" else "VALUE"), []
            ).append(repr(value))
        lines.append(f"{field.name}, by default {default!r}")
        lines += [f"  {', '.join(values)}: {said}" for said, values in outcomes.items()]
    check_text(GOLDEN, name, "\n".join(lines))
