"""Child processes have one mechanism, ``wdsflow/engines/peer``.

Retries have one policy, ``wdsflow/engines/retries``.
"""

import ast
import re
from functools import cache

import pytest

from tests.test_floors import MODULES, imports_of
from tests.trees import nodes, parsed

pytestmark = pytest.mark.xdist_group("syntax trees")

PEER, KEEPER, RETRIES = "wdsflow.engines.peer", "wdsflow.engines.keeper", "wdsflow.engines.retries"
MARK, EXIT_STATUS = "wdsflow.engines.mark", "wdsflow.engines.exit_status"
STARTS = {  # call -> who makes it
    "Popen": {PEER, "wdsflow.shards.source.streams"},  # commands of users behind pipe: urls
    "fork": {KEEPER},
    # Forks with shared memory; psutil's.
    "Process": {
        "wdsflow.training.workers.decoder_process",
        KEEPER,
    },
    "posix_spawn": set(),
    "spawnv": set(),
    "ProcessPoolExecutor": set(),
    "Pool": set(),
    "socketpair": {PEER},
    "prctl": {KEEPER},
}
ENDS = {"WIFSIGNALED", "WTERMSIG", "WEXITSTATUS", "waitpid", "waitid"}
LIMIT = re.compile(
    r"_?(MOST_|NODE_|MAP_|TASK_)(DEATHS|LOSSES|ENDS|STARTS|LOADS|TRIES|RETRIES|RESTARTS)"
)


@cache
def calls(module: str) -> set[str]:
    """Return the names of all functions that a module calls."""
    named = [node.func for node in nodes(MODULES[module]) if isinstance(node, ast.Call)]
    return {each.attr for each in named if isinstance(each, ast.Attribute)} | {
        each.id for each in named if isinstance(each, ast.Name)
    }


def test_only_the_peer_starts_processes():
    found = {name: {module for module in MODULES if name in calls(module)} for name in STARTS}
    watched = {  # psutil looks at processes, and starts none
        module
        for module in found["Process"]
        if "psutil" in {name for name, _ in imports_of(module, MODULES[module])}
        and module != "wdsflow.training.workers.decoder_process"
    }
    assert {**found, "Process": found["Process"] - watched | {KEEPER}} == STARTS


def test_only_the_peer_and_its_keeper_read_how_a_process_ended():
    assert {module for module in MODULES if calls(module) & ENDS} == {PEER, KEEPER}
    reading = {
        (module, node.attr)
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"exitcode", "returncode", "Signals"}
    }
    assert reading == {
        (PEER, "returncode"),
        (EXIT_STATUS, "Signals"),
        # Of a fork; ``describe_exit`` explains it.
        (
            "wdsflow.training.workers.decoder_process",
            "exitcode",
        ),
    }


def test_only_the_peer_and_the_notes_made_of_it_share_memory_with_a_process():
    mapping = {
        module
        for module, path in MODULES.items()
        if "pack_into" in path.read_text("utf-8")
        and "mmap" in {name for name, _ in imports_of(module, path)}
    }
    assert mapping == {MARK}


def test_limits_of_retries_after_a_death_are_in_the_policy():
    found = {
        (module, target.id)
        for module, path in MODULES.items()
        for node in parsed(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and LIMIT.fullmatch(target.id)
    }
    assert {module for module, _ in found} == {RETRIES}, found
