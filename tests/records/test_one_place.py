"""Locks, marks, counts and sums of a run's folder have one place: ``wdsflow/records``."""

import ast
from pathlib import Path

import pytest

from tests.test_floors import MODULES, imports_of
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

ROOM = "wdsflow.records"
HERE = {  # a name that only this room uses -> where else, and why
    "wdsflow.records.unfinished.begin_shards": set(),
    "wdsflow.records.unfinished.end_shards": set(),
    "wdsflow.records.shard_counts.write_counts": set(),
    "wdsflow.records.shard_counts.remove_counts": set(),
    "wdsflow.records.folder_lock.Lock": {
        "wdsflow.filtering.run_record",  # workers on other machines
        "wdsflow.joining.index.index_cache",  # folders of one index
    },
    "wdsflow.shards.atomic.remove_stale_files": {  # folders of one file
        "wdsflow.indexing.energon_database",
        "wdsflow.filtering.export.export",
        "wdsflow.shards.cache.plan",
    },
}


def texts(path: Path) -> list[str]:
    """Return the parts of f-strings in a file."""
    strings = [node for node in nodes(path) if isinstance(node, ast.JoinedStr)]
    return [
        str(part.value)
        for node in strings
        for part in node.values
        if isinstance(part, ast.Constant)
    ]


@pytest.mark.parametrize("name", HERE)
def test_only_the_record_begins_ends_and_counts_a_folder(name: str):
    users = {
        module
        for module, path in MODULES.items()
        if name in {each for each, _ in imports_of(module, path)}
    }
    assert {module for module in users if not module.startswith(f"{ROOM}.")} == HERE[name]


def test_sums_are_checked_in_one_place():
    """Docstrings may speak of sums that do not add up; messages come from one place."""
    found = {
        module
        for module, path in MODULES.items()
        if any(text.startswith(" do not add up:") for text in texts(path))
    }
    found |= {
        module
        for module, path in MODULES.items()
        if any("samples do not add up" in text for text in texts(path))
    }
    assert found == {f"{ROOM}.counts"}
