"""The walk, the writer of pieces and the output record are each implemented in one place.

Other mechanisms have their own tests.
"""

import ast

import pytest

from tests.test_floors import MODULES
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

# What shows that code does the work of a mechanism itself, and where that is its place.
SIGNS = {
    "headers of tars": (
        lambda node: _holds(node, b"ustar"),
        {"wdsflow.shards.tar", "wdsflow.pieces.tar_members"},
    ),
    "a walk without a rule of grouping": (
        lambda node: _calls(node, "Walk"),
        {
            "wdsflow.shards",
            "wdsflow.scan.scan",  # counts members, not samples
            "wdsflow.repair.read_members",  # reads members of any order
            "wdsflow.filtering.shard.shard_outputs",  # counts what a tar holds that is no sample
        },
    ),
    "ranges copied to a file": (lambda node: _attribute(node, "preadv"), {"wdsflow.pieces.writer"}),
    "ranges sent by the kernel": (lambda node: _attribute(node, "sendfile"), set()),
    "locks of folders": (
        lambda node: _attribute(node, "flock"),
        {
            "wdsflow.records",
            "wdsflow.engines.site",  # holds the lock of a record on another machine
            "wdsflow.shards.atomic",  # temporary files
            "wdsflow.shards.cache.locks",  # shards that are being stored
            "wdsflow.shards.scratch",  # scratch folders
        },
    ),
    "counts that OpenCLIP reads": (
        lambda node: _holds(node, "sizes.json"),
        {
            "wdsflow.records.shard_counts",
            "wdsflow.indexing",  # writes them for shards that are there
            "wdsflow.readers",  # reads them
            "wdsflow.validate",
        },
    ),
}


def _holds(node: ast.AST, value: str | bytes) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    return (
        node.value.startswith(value)
        if isinstance(value, bytes) and isinstance(node.value, bytes)
        else node.value == value
    )


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


@pytest.mark.parametrize("sign", SIGNS)
def test_each_mechanism_has_one_place(sign):
    shows, places = SIGNS[sign]
    found = set()
    for module, path in MODULES.items():
        shown = [node for node in nodes(path) if shows(node)]
        if sign.startswith("a walk") and any(_calls(node, "group_members") for node in nodes(path)):
            continue
        if shown:
            found.add(module)
    elsewhere = {
        module
        for module in found
        if not any(f"{module}.".startswith(f"{place}.") for place in places)
    }
    assert elsewhere == set()
    assert {
        place for place in places if any(f"{module}.".startswith(f"{place}.") for module in found)
    } == places
