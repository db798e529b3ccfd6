"""Ceilings kept from run to run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wdsflow.memory.batching.probe import CeilingStore, cache_folder
from wdsflow.memory.batching.runner import Ceiling, Known

KEY = {
    "model": "openclip image",
    "settings": {"model": "ViT-B-32"},
    "dtype": "bf16",
    "device": "A100",
    "torch": "2.9.1",
}
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("known", [Known(), Known(700, 650, 1000), Known(None, 12, None), Known(1, 0, 2)])
def test_what_is_saved_is_loaded(tmp_path, known):
    assert CeilingStore(tmp_path / "a" / "b").save(KEY, Ceiling(known))

    assert CeilingStore(tmp_path / "a" / "b").load(KEY).known == known


def test_another_device_or_version_knows_nothing_of_it(tmp_path):
    store = CeilingStore(tmp_path)
    store.save(KEY, Ceiling(Known(700, 650, 1000)))

    assert store.load({**KEY, "device": "H100"}).known == Known()
    assert store.load({**KEY, "torch": "2.10"}).known == Known()
    assert store.load(dict(reversed(KEY.items()))).known == Known(700, 650, 1000)


def test_the_most_holds_for_what_is_loaded(tmp_path):
    store = CeilingStore(tmp_path)
    store.save(KEY, Ceiling(Known(700, 650, 1000)))

    assert store.load(KEY, most=100).limit == 100


GOOD = {"format": 1, "limit": 5, "worked": 4, "failed": 9}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        b"{",
        b"[1]",
        b"null",
        b"[" * 100_000,
        b'{"format": 1, "limit": 1' + b"0" * 5000 + b', "worked": 0, "failed": null}',
        *(
            json.dumps({**GOOD, **change}).encode()
            for change in (
                {"format": 2},
                {"limit": 0},
                {"limit": -5},
                {"limit": True},
                {"limit": 5.0},
                {"limit": "5"},
                {"limit": 9},
                {"limit": None},
                {"limit": 1 << 63, "failed": None},
                {"worked": None},
                {"worked": 9},
                {"worked": float("nan")},
                {"failed": 1},
            )
        ),
    ],
)
def test_a_corrupt_file_is_as_none_and_is_replaced(tmp_path, content):
    store = CeilingStore(tmp_path)
    store.path(KEY).write_bytes(content)

    assert store.load(KEY).known == Known()
    assert store.save(KEY, Ceiling(Known(3, 2, 5)))
    assert store.load(KEY).known == Known(3, 2, 5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["format", "limit", "worked", "failed"]),
        st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3) | st.lists(st.integers()),
    )
)
def test_whatever_a_file_says_the_ceiling_makes_sense(tmp_path, change):
    store = CeilingStore(tmp_path)
    store.path(KEY).write_text(json.dumps({**GOOD, **change}))

    limit, worked, failed = store.load(KEY).known

    assert failed is None or (worked < failed and limit < failed)
    assert limit is None or limit >= 1


def test_a_folder_that_cannot_be_written_fails_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    store = CeilingStore(tmp_path / "file" / "ceilings")

    assert store.save(KEY, Ceiling(Known(3, 2, 5))) is False
    assert store.load(KEY).known == Known()


def test_a_folder_in_place_of_the_file_fails_nothing_and_leaves_nothing_behind(tmp_path):
    store = CeilingStore(tmp_path)
    store.path(KEY).mkdir()

    assert store.save(KEY, Ceiling(Known(3, 2, 5))) is False
    assert store.load(KEY).known == Known()
    assert [path.name for path in tmp_path.iterdir()] == [store.path(KEY).name]


def test_without_a_home_nothing_is_kept(monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    store = CeilingStore()

    assert cache_folder() is None
    assert store.save(KEY, Ceiling(Known(3, 2, 5))) is False
    assert store.load(KEY).known == Known()


def test_the_cache_is_where_the_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "wdsflow" / "ceilings"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder().is_relative_to(tmp_path / "home")


@pytest.mark.deep
def test_processes_that_write_at_once_leave_a_whole_file(tmp_path):
    script = """
import sys
from pathlib import Path
from wdsflow.memory.batching.runner import Ceiling, Known
from wdsflow.memory.batching.probe import CeilingStore
number = int(sys.argv[2])
for _ in range(200):
    assert CeilingStore(Path(sys.argv[1])).save({"key": 1}, Ceiling(Known(number, number - 1, number * 2)))
"""
    store, seen = CeilingStore(tmp_path), set()
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)], cwd=ROOT)
        for number in (100, 20_000, 3_000_000)
    ]
    while any(writer.poll() is None for writer in writers):
        if store.path({"key": 1}).exists():
            seen.add(store.load({"key": 1}).known)

    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen <= {Known(number, number - 1, number * 2) for number in (100, 20_000, 3_000_000)}
    assert store.load({"key": 1}).known.limit in {100, 20_000, 3_000_000}
    assert len(list(tmp_path.iterdir())) == 1
