"""One place knows which shards are files of JSON lines, and one folder what these are."""

import ast
import re

from tests.test_floors import MODULES, imports_of
from tests.trees import nodes

FOLDER, KINDS = "wdsflow.filtering.jsonl", "wdsflow.filtering.kinds"
ENDING = re.compile(r"jsonl\b")
# Other modules that spell the ending, and why they may.
SPELLED = {
    "wdsflow.cli.shared.nearest_paths": "files whose names are like one that does not exist",
    "wdsflow.filtering.recipe.recipe": "the format of outputs, as a value of an option",
    "wdsflow.filtering.samples": "the reasons next to quarantined samples of a tar",
    "wdsflow.packing.plan": "its own file",
    "wdsflow.packing.row_sources": "tables",
    "wdsflow.packing.run_pack": "its own file",
    "wdsflow.records.line": "its own files",
    "wdsflow.records.output_record": "its own files",
    "wdsflow.records.run_status": "its own files",
    "wdsflow.reshaping.graft.run_graft": "its own file",
    "wdsflow.reshaping.graft.table_rows": "tables",
    "wdsflow.shards.urls": "a file that is not a list of shards",
    "wdsflow.records.store": "the record in an object store",
    "wdsflow.table_files.text_rows": "tables",
    "wdsflow.training.stalls.progress": "its own files",
}


MENTIONING = {module: path for module, path in MODULES.items() if "jsonl" in path.read_text("utf-8")}


def texts(module: str) -> set[str]:
    """Return the names of files and values that a module spells: strings that are neither docstrings nor sentences."""
    constants = (node.value for node in nodes(MODULES[module]) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and " " not in value}


def test_only_the_kinds_of_shards_look_at_the_ending_of_json_lines():
    found = {module for module in MENTIONING if any(map(ENDING.search, texts(module)))}
    assert {module for module in found if not module.startswith(FOLDER)} == {KINDS, *SPELLED}


def test_only_the_kinds_of_shards_know_the_folder_of_json_lines():
    knowing = {
        module
        for module, path in MENTIONING.items()
        if not module.startswith(FOLDER) and any(name.startswith(f"{FOLDER}.") for name, _ in imports_of(module, path))
    }
    assert knowing == {KINDS}


def test_json_lines_know_nothing_of_folders_ledgers_decisions_and_jobs():
    known = {
        ".".join(name.split(".")[:3])
        for module, path in MODULES.items()
        if module.startswith((FOLDER, "wdsflow.filtering.samples"))
        for name, _ in imports_of(module, path)
        if name.startswith("wdsflow.filtering.")
    }
    assert known == {f"wdsflow.filtering.{name}" for name in ("jsonl", "recipe", "samples", "where")}
