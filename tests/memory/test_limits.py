"""Bounds of a process's memory: control groups as containers have them, and limits of its own."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from wdsflow.memory.bounds import Bound, group_bounds, host_memory

pytestmark = pytest.mark.usefixtures("new_interpreters")

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
SCRIPT = """
import json, resource, sys
from wdsflow.memory.batching.device import HostDevice
limit, most = getattr(resource, sys.argv[1]), int(sys.argv[2])
resource.setrlimit(limit, (most, resource.RLIM_INFINITY))
print(json.dumps(HostDevice().memory()))
"""


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")


def test_a_group_and_those_above_it_bound_the_process(tmp_path):
    group(tmp_path / "a", memory_max=900, memory_current=500)
    group(tmp_path / "a/b", memory_max="max", memory_current=300)
    group(tmp_path / "a/b/c", memory_max=400, memory_current=300)
    assert group_bounds(tmp_path, "0::/a/b/c\n") == [Bound(400, 300), Bound(900, 500)]
    assert group_bounds(tmp_path, "0::/a/b\n") == [Bound(900, 500)]
    assert group_bounds(tmp_path, "") == []


def test_a_container_finds_its_own_group_at_the_root(tmp_path):
    group(tmp_path, memory_max=400, memory_current=300)
    assert group_bounds(tmp_path, "0::/../docker/0123\n")[-1:] == [Bound(400, 300)]


def test_cache_that_goes_when_memory_is_short_is_free(tmp_path):
    group(
        tmp_path,
        memory_max=400,
        memory_current=390,
        memory_stat="anon 40\ninactive_file 300\nactive_file 50",
    )
    assert group_bounds(tmp_path, "0::/\n") == [Bound(400, 90)]


def test_groups_of_the_first_version_are_seen(tmp_path):
    files = {
        "memory_limit_in_bytes": 400,
        "memory_usage_in_bytes": 390,
        "memory_stat": "total_inactive_file 90",
    }
    group(tmp_path / "memory/x", **files)
    group(tmp_path / "memory", memory_limit_in_bytes=(1 << 63) - 4096, memory_usage_in_bytes=1000)
    text = "4:memory:/x\n3:cpuset:/y\n0::/\n"
    assert group_bounds(tmp_path, text) == [Bound(400, 300)]


@pytest.mark.skipif(sys.platform != "linux", reason="others do not hold to these limits")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_count(limit):
    command = [sys.executable, "-c", SCRIPT, limit, str(700 * MIB)]
    memory = json.loads(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )
    assert memory["total"] <= 700 * MIB
    assert 0 < memory["free"] < 700 * MIB


def test_files_of_a_group_that_say_nothing_bound_nothing(tmp_path):
    group(tmp_path / "none", memory_max=1 << 60, memory_current=5)
    group(tmp_path / "most", memory_max=(1 << 60) - 1, memory_current=5)
    group(tmp_path / "cached", memory_max=400, memory_current=100, memory_stat="inactive_file 300")
    group(tmp_path / "odd", memory_max=400, memory_current=100, memory_stat="inactive_file many")
    assert group_bounds(tmp_path, "0::/none") == []
    assert group_bounds(tmp_path, "0::/most") == [Bound((1 << 60) - 1, 5)]
    assert group_bounds(tmp_path, "0::/cached") == [Bound(400, 0)]
    assert group_bounds(tmp_path, "0::/odd") == [Bound(400, 100)]
    assert group_bounds(tmp_path, "0::/odd\nno colons\n3:cpuset:/odd\n0::/cached") == [
        Bound(400, 100),
        Bound(400, 0),
    ]


def test_the_tightest_bound_of_all_counts(monkeypatch):
    machine = psutil.virtual_memory()
    bounds = [
        Bound(machine.total // 2, machine.total // 4),
        Bound(machine.total // 3, 0),
        Bound(machine.total * 4, 0),
    ]
    monkeypatch.setattr("wdsflow.memory.bounds.control_groups", lambda: bounds)
    monkeypatch.setattr("wdsflow.memory.bounds._process_limits", lambda: iter([]))
    found = host_memory()
    assert found.total == machine.total // 3
    assert 0 < found.free <= machine.total // 4 + 1
    bounds.append(Bound(1000, 1200))
    assert host_memory() == (1000, 0)
