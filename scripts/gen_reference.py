#!/usr/bin/env python3
"""Writes the reference pages from the code.

Run `scripts/gen_reference.py`, or add `--check` to fail if the pages are out of date.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from support import api_reference, command_pages, llms, packages

from wdsflow.filtering.recipe.recipe_file import recipe_schema
from wdsflow.validate.catalog import manual_pages

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference.md": api_reference.reference,
    "docs/rules.md": manual_pages.reference,
    "docs/commands.md": command_pages.commands,
    "docs/score-list.md": command_pages.scores,
    "docs/recipe.md": command_pages.recipe,
    "docs/recipe.schema.json": recipe_schema,
    packages.PAGE: packages.code_map,
    "llms.txt": llms.pages,  # the last: it names the pages above
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where a page is out of date"
    )
    check = parser.parse_args().check
    stale = 0
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"{name} is out of date: run scripts/gen_reference.py")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
