"""Outputs are decided as pieces, and made of them in one room."""

import ast

import pytest

from tests.test_floors import MODULES
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

ROOM = "wdsflow.pieces"
ENDS = {
    "wdsflow.packing.rows.plan": "how large a tar will be",
    "wdsflow.packing.shard.write_shard": "how large a tar would become",
    "wdsflow.repair.repair_shard": "how large a tar would become",
}


def _importing(name: str) -> set[str]:
    """Return the modules outside the room that import a name of it."""
    return {
        module
        for module, path in MODULES.items()
        if not module.startswith(ROOM)
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ROOM)
        if name in {alias.name for alias in node.names}
    }


def _with(text: str) -> set[str]:
    return {
        module
        for module, path in MODULES.items()
        if not module.startswith(ROOM) and text in path.read_text("utf-8")
    }


def test_only_the_room_of_the_pieces_copies_ranges_and_makes_headers():
    assert _importing("Sink") == set()
    assert _with("preadv") == set()
    assert _with("tobuf(") == set()
    assert _with("copy_file_range") | _with("addfile(") == set()


def test_only_the_room_of_the_pieces_makes_views_and_few_know_how_a_tar_ends():
    assert _importing("TarView") == set()
    assert _importing("END") == set(ENDS)
