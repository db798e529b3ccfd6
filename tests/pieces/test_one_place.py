"""Outputs are decided as pieces, and made of them in one room."""

import ast

from tests.test_floors import MODULES
from tests.trees import nodes

ROOM = "wdsflow.pieces"
TARS = {
    "wdsflow.serving.shard_tars": "holds what is served",
    "wdsflow.serving.resharded_tars": "holds what is served",
}
ENDS = {
    "wdsflow.filtering.jsonl.jsonl_kind": "how large a tar becomes",
    "wdsflow.packing.plan": "how large a tar becomes",
    "wdsflow.packing.write_shard": "how large a tar would become",
    "wdsflow.repair.repair_shard": "how large a tar would become",
    **TARS,
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
        module for module, path in MODULES.items() if not module.startswith(ROOM) and text in path.read_text("utf-8")
    }


def test_only_the_room_of_the_pieces_copies_ranges_and_makes_headers():
    assert _importing("Sink") == set()
    assert _with("preadv") == set()
    assert _with("tobuf(") == set()
    assert _with("copy_file_range") | _with("addfile(") == set()


def test_only_what_is_served_is_held_as_a_view():
    assert _importing("TarView") == set(TARS)
    assert _importing("END") == set(ENDS)
