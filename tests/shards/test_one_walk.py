"""One room turns the bytes of a tar into members, and members into samples."""

import ast

import pytest

from tests.test_floors import ROOT, sources
from tests.trees import nodes

pytestmark = pytest.mark.xdist_group("syntax trees")

ROOM = "wdsflow.shards"
# What turns names into keys, and why it may: all others ask the room.
SPLITS = {
    "wdsflow.packing.rows.folder_rows": "files of a folder, grouped as members would be",
    "wdsflow.scan.scanner": "counts runs and odd names for all readers at once",
    "wdsflow.readers.datasets_columns": "the rule of datasets, as data of a Grouping",
    "wdsflow.repair.junk_names": "keys of dot-files, which readers split in their own way",
    "wdsflow.repair.read_members": "whether a member with a damaged header fits its neighbours",
    "wdsflow.repair.regroup": "joins members that are not adjacent",
    "wdsflow.reshaping.reshard.write_output": "the members of one sample, in their new place",
}
HEADERS = {
    "wdsflow.reshaping.reshard.write_output": "the members of one sample, in their new place",
    "wdsflow.repair.member_contents": "links, by tarfile itself",
}


def _using(names: set[str]) -> set[str]:
    """Return the modules outside the room that import one of these names."""
    return {
        module
        for module, path in sources()
        if not module.startswith(ROOM)
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and names & {alias.name for alias in node.names}
    }


def test_only_the_room_of_the_walk_splits_names_into_keys_and_fields():
    assert _using({"split_name", "split_as_webdataset"}) == set(SPLITS)


def test_only_the_room_of_the_walk_reads_headers():
    opens = {
        module
        for module, path in sources()
        if not module.startswith(ROOM)
        and any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "tarfile.open"
            for node in nodes(path)
        )
    }
    assert _using({"parse_header", "read_entry", "checksum_holds"}) | opens == set(HEADERS)


def test_there_is_one_quick_way_through_headers():
    loops = [
        path
        for path in (ROOT / "wdsflow/shards").rglob("*.py")
        if "adler32(" in path.read_text("utf-8")
    ]
    # The quick way, the careful way.
    assert sorted(path.name for path in loops) == [
        "plain_entries.py",
        "tar_header.py",
    ]
