"""The table that a run joined, as recorded in its folder.

Commands that read the same samples join it too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wdsflow.records.run_folder import Layout, recorded_run
from wdsflow.text.secrets import redact
from wdsflow.text.shell import command

from .join_options import JoinOptions, join_names, join_words

# In a run.json. Another path to the same table is no other run.
OPTIONS = "join options"


def options_to_record(join: JoinOptions) -> dict[str, object]:
    """Return the options of a join for a run.json, without passwords; nothing without a table."""
    options = join.changed_join()
    if options:
        options["join"] = redact(str(join.join))
    return options


def recorded_join(folder: Path) -> dict[str, Any]:
    """Return the options of the join of a run, by their names; nothing without one."""
    return join_of(recorded_run(Layout(folder).run_file))


def join_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the join in a run.json, by their names; nothing without one."""
    options = run.get(OPTIONS)
    if not isinstance(options, dict):
        return {}
    return {name: options[name] for name in join_names() if name in options}


def join_flags(options: Mapping[str, Any]) -> str:
    """Return options of a join for a command, preceded by a space; "" for none.

    >>> join_flags({"join": "my table.csv", "join_set": ["txt=caption"]})
    " --join 'my table.csv' --join-set txt=caption"
    """
    words = list(join_words(options))
    return f" {command(words)}" if words else ""
