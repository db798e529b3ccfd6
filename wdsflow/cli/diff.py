"""``wdsflow diff``: the differences between two sets of shards."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from wdsflow.cli.shared.terminal import fail, print_lines, progress
from wdsflow.cli.shared.typed import Typed
from wdsflow.reshaping.options import DiffOptions
from wdsflow.text.options import CHECKS, argument, option


@dataclass(frozen=True)
class Compared:
    """The sets to compare, and the form of the report."""

    before: str = argument("A", "Shards, as for validate; several patterns joined by ::")
    after: str = argument("B", "Shards to compare them with.")
    form: Literal["text", "json", "markdown"] = option(
        "text", "Format of the report: text, json, or markdown for a pull request.", "--format", metavar="FORMAT"
    )
    ledger_a: Path | None = option(
        None,
        "Output folder of score or filter with the scores of A. By default that of the shards, if both sets have one.",
        metavar="FOLDER",
        panel=CHECKS,
    )
    ledger_b: Path | None = option(None, "The same for B.", metavar="FOLDER", panel=CHECKS)


def diff(typed: Typed, sets: Compared, options: DiffOptions) -> None:
    """Compare two sets of shards, sample by sample.

    Samples of the same key are compared field by field, by their bytes; it does not matter which shards they are in.
    Reports samples that only one set has, fields and captions that changed, and scores, if both sets have ledgers.

    Exit status, as of diff(1): 0 if the sets are the same, 1 if they differ, 2 if something could not be read.
    """
    from wdsflow.reshaping.diff.run_diff import diff_shards
    from wdsflow.reshaping.diff.set_diff import markdown_lines, text_lines

    ledgers = (sets.ledger_a, sets.ledger_b)
    with progress() as begin:
        options = replace(options, ledgers=None if ledgers == (None, None) else ledgers, begin=begin)
        found = diff_shards(sets.before, sets.after, **vars(options))
    for name, facts, urls in zip("AB", found.sides, (sets.before, sets.after), strict=True):
        if facts.shards and len(facts.trouble) >= len(facts.shards) and not facts.fields:
            look = f"see what is wrong: {typed.look('validate', *urls.split('::'))}"
            fail(f"nothing of {name} could be read: {facts.trouble[0]}", look)
    if sets.form == "json":
        sys.stdout.write(json.dumps(found.to_dict(), indent=2) + "\n")
    elif sets.form == "markdown":
        sys.stdout.writelines(f"{line}\n" for line in markdown_lines(found))
    else:
        print_lines(*text_lines(found))
    sys.exit(found.exit_status)
