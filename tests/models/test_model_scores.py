"""Model scores end to end: bounded batches, each sample once, one model for all workers."""

import os
import re
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.depth import cases
from tests.processes import await_end, living_children

pytest.importorskip("torch", reason="torch is not installed")

from tests.filtering.shards import digests, write_shards
from tests.models import own
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.broken_scores import FIRST_SAMPLES
from wdsflow.memory.batching.attempt import POISONED, Failure
from wdsflow.models.loaded import LoadedModels, ModelError
from wdsflow.models.processes import ModelProcesses
from wdsflow.models.remote_models import RemoteModels

HERE = RunOptions(jobs=0, device="cpu")
OWN_MODULE = """
from dataclasses import dataclass
from wdsflow.stages.scores.model.batch_score import BatchScore
@dataclass(frozen=True, kw_only=True)
class Vowels(BatchScore):
    name = "vowels"
    inputs = "caption"
    def load(self, device):
        return "aeiou"
    def score(self, loaded, batch):
        return [sum(letter in loaded for letter in text) for text in batch]
"""


def captioned(path: Path, texts: list[str]) -> str:
    entries = []
    for number, text in enumerate(texts):
        entries += [(f"{number:05d}.jpg", b"not needed"), (f"{number:05d}.txt", text.encode())]
    write_tar(path, entries)
    return str(path)


def ledger(out: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        out / ".wdsflow" / "ledger" / f"{name}.parquet"
    ).to_pylist()
    return found


def test_a_score_of_ones_own_decides_beside_others(tmp_path):
    source = write_shards(tmp_path / "in", shards=1)
    recipe = Recipe(where="caption_words >= 2 and letters(times=3) >= 36 and brightest > 10")
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    rows = ledger(tmp_path / "out", "00000")
    for row in rows:
        words = row["sample"] % 5 + 1
        assert row["outcome"] == ("kept" if words >= 3 else "dropped")
        # One word was put out before.
        assert row["letters(times=3)"] == (12 * words if words >= 2 else None)
        assert (row["brightest"] is None) == (words < 3)
    assert report.total("kept") == 12


def test_one_model_serves_all_workers_and_the_bytes_are_those_of_one_process(tmp_path, monkeypatch):
    source = write_shards(tmp_path / "in", shards=6)
    loaded = tmp_path / "loaded"
    loaded.mkdir()
    monkeypatch.setenv("LOADED", str(loaded))
    recipe = Recipe(where="letters >= 9")
    filter_shards(source, tmp_path / "many", recipe, RunOptions(jobs=3, device="cpu"))
    assert len(list(loaded.iterdir())) == 1
    filter_shards(source, tmp_path / "one", recipe, HERE)
    many, one = digests(tmp_path / "many"), digests(tmp_path / "one")
    shown = [name for name in one if name.endswith((".tar", ".parquet", ".json", "__len__"))]
    assert {name: one[name] for name in shown} == {name: many[name] for name in shown}


@pytest.mark.deep
@settings(cases(2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 60))
def test_running_out_of_memory_costs_only_what_does_not_fit_alone(lengths, most):
    model = own.Brittle(most=most).models()[0]
    items = ["x" * length for length in lengths]
    found = LoadedModels("cpu").map(model, items)
    assert len(found) == len(items)
    for length, value in zip(lengths, found, strict=True):
        if length <= most:
            assert value == length
        else:
            assert isinstance(value, Failure)
            assert value.slug == "out-of-memory"


def test_a_score_that_works_for_one_sample_is_not_called_broken_by_many_others(tmp_path):
    source = captioned(
        tmp_path / "0.tar",
        ["a caption", *(f"hostile {number}" for number in range(FIRST_SAMPLES + 20))],
    )
    report = filter_shards(
        source, tmp_path / "out", Recipe(where='brittle(fails="hostile") >= 1'), HERE
    )
    assert (report.total("kept"), report.merged("quarantined")) == (
        1,
        {"raised-ValueError": FIRST_SAMPLES + 20},
    )


def test_the_output_of_one_model_is_the_item_of_another(tmp_path):
    source = captioned(tmp_path / "0.tar", ["a house", "unfit", "bcd", "a house"])
    measure_shards(source, tmp_path / "out", Recipe(scores=("letters", "vowels_of_upper")), HERE)
    rows = ledger(tmp_path / "out", "0")
    assert [row["vowels_of_upper"] for row in rows] == [4, None, 0, 4]
    assert [row["letters"] for row in rows] == [6, 5, 3, 6]
    ((failed,),) = [row["failed"] for row in rows if row["failed"]]
    assert (failed["score"], failed["error"]) == ("vowels_of_upper", "raised-ValueError")
    assert failed["detail"].startswith("no capitals")


def test_a_bad_sample_costs_itself_and_is_put_aside_with_its_numbers(tmp_path):
    texts = [f"a caption {number}" for number in range(100)]
    texts[17] = "a hostile caption"
    texts[90] = "x" * 500
    source = captioned(tmp_path / "0.tar", texts)
    recipe = Recipe(where='brittle(most=400, fails="hostile") >= 1')
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    rows = ledger(tmp_path / "out", "0")
    assert [row["sample"] for row in rows if row["outcome"] == "quarantined"] == [17, 90]
    assert rows[17]["error"] == "raised-ValueError"
    assert rows[90]["error"] == "out-of-memory"
    assert "cost 500" in rows[90]["detail"]
    assert report.total("kept") == 98


@pytest.mark.deep
def test_a_process_that_dies_at_an_item_is_replaced_and_the_item_put_aside(tmp_path):
    texts = [f"caption {number}" for number in range(40)]
    texts[7] = "deadly caption"
    source = captioned(tmp_path / "0.tar", texts)
    recipe = Recipe(where='brittle(kills="deadly") >= 1')
    report = filter_shards(source, tmp_path / "out", recipe, RunOptions(jobs=1, device="cpu"))
    rows = ledger(tmp_path / "out", "0")
    assert [row["sample"] for row in rows if row["outcome"] == "quarantined"] == [7]
    assert rows[7]["error"] == POISONED
    assert report.total("kept") == 39


@pytest.mark.deep
def test_a_killed_model_process_is_asked_again():
    before = living_children()
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        model = own.Letters().models()[0]
        assert models.map(model, ["abc"]) == [3]
        children = living_children(before)
        assert len(children) == 1
        children[0].send_signal(signal.SIGKILL)
        assert models.map(model, ["ab", "c"] * 50) == [2, 1] * 50
        models.close()
    await_end(*children)


@pytest.mark.deep
def test_modules_are_found_where_this_process_finds_them(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    vowels = import_module("beside").Vowels()
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        assert models.map(vowels.models()[0], ["a house"]) == [4]
        models.close()


def test_a_class_that_no_module_has_is_told_by_name(monkeypatch):
    class Local(own.Letters):
        """Not to be found by others."""

    Local.__qualname__, Local.__module__ = "NotThere", own.__name__
    monkeypatch.setattr(own, "NotThere", Local, raising=False)
    with (
        ModelProcesses("cpu") as processes,
        pytest.raises(ModelError, match=r"cannot import .*NotThere"),
    ):
        processes.prepare(Local().models())


@pytest.mark.deep
def test_memory_that_is_short_while_a_model_is_loaded_is_waited_for_once():
    model = own.LoadsAtSecond().models()[0]
    own.LoadsAtSecond.loads.clear()
    assert LoadedModels("cpu").map(model, ["abc"]) == [3]
    own.LoadsAtSecond.loads[:] = [0, 0, 0, 0]
    with pytest.raises(ModelError, match="cannot be loaded: OutOfMemoryError"):
        LoadedModels("cpu").map(model, ["abc"])


@pytest.mark.deep
def test_the_largest_item_bounds_batches_also_where_nobody_prepared():
    model = own.Sized(most=4000).models()[0]
    loaded = LoadedModels("cpu")
    assert loaded.map(model, ["x" * 10] * 300) == [10] * 300
    assert loaded.runners[model].ceiling.max_limit is not None


@pytest.mark.deep
def test_a_model_that_does_not_fit_ends_a_run_in_one_process_before_the_first_shard(tmp_path):
    source = captioned(tmp_path / "0.tar", ["a"])
    for workers in (0, 1):
        with pytest.raises(ModelError, match="does not fit"):
            measure_shards(
                source,
                tmp_path / "out",
                Recipe(scores=("sized(most=10)",)),
                RunOptions(jobs=workers, device="cpu"),
            )


def test_a_model_that_fails_at_its_largest_item_is_told_by_name_and_error():
    class Narrow(own.LargestText):
        """Takes no text of 50 characters."""

        def run(self, loaded, batch):
            raise IndexError(f"position {len(batch[0])} of 48")

    model = Narrow(most=1000)
    message = re.escape(f"{model.display_name()}: IndexError: position 50 of 48")
    with pytest.raises(ModelError, match=f"^{message}$"):
        LoadedModels("cpu").prepare((model,))


def test_a_score_that_returns_too_few_values_is_told_by_name():
    model = own.Brittle(fails="count").models()[0]
    with pytest.raises(ModelError, match=r"^brittle: score\(\) returned 1 value for 3 items"):
        LoadedModels("cpu").map(model, ["a", "b", "c"])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_cap_that_cannot_be_is_told_before_anything_is_loaded(tmp_path, workers):
    source = captioned(tmp_path / "0.tar", ["a"])
    options = RunOptions(jobs=workers, device="cpu", gpu_memory="8GiB")
    with pytest.raises(
        ModelError, match=r"^'8GiB' caps the memory of a GPU; the device is the CPU$"
    ):
        measure_shards(source, tmp_path / "out", Recipe(scores=("letters",)), options)


@pytest.mark.deep
def test_a_model_that_ends_its_program_costs_its_sample(tmp_path):
    source = captioned(tmp_path / "0.tar", ["good one", "one that leaves", "another"])
    for workers in (0, 1):
        out = tmp_path / f"out{workers}"
        report = filter_shards(
            source,
            out,
            Recipe(where='brittle(leaves="leaves") >= 1'),
            RunOptions(jobs=workers, device="cpu"),
        )
        assert (report.total("kept"), report.merged("quarantined")) == (2, {"raised-SystemExit": 1})


@pytest.mark.deep
def test_several_who_ask_at_once_get_their_own():
    with ModelProcesses("cpu") as processes:
        model = own.Letters().models()[0]
        wrong = []

        def ask(number):
            models = RemoteModels(processes.location.addresses, processes.location.key)
            found = [models.map(model, ["x" * number, "y" * length]) for length in range(1, 40)]
            models.close()
            wrong.extend(each for length, each in enumerate(found, 1) if each != [number, length])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong


def test_a_model_that_cannot_be_loaded_is_told_before_the_first_shard(tmp_path):
    source = captioned(tmp_path / "0.tar", ["a"])
    recipe = Recipe(scores=('brittle(fails="load")',))
    with pytest.raises(ModelError, match=r"^brittle cannot be loaded: ValueError: no weights"):
        measure_shards(source, tmp_path / "out", recipe, RunOptions(jobs=1, device="cpu"))
    assert not list((tmp_path / "out").rglob("*.parquet"))
    with pytest.raises(ValueError, match="cuda"):
        measure_shards(
            source,
            tmp_path / "out2",
            Recipe(scores=("letters",)),
            RunOptions(jobs=1, device="cuda:7"),
        )


def test_no_model_process_outlives_a_run_that_is_killed(tmp_path):
    texts = [f"a caption {number}" for number in range(2000)]
    source = captioned(tmp_path / "0.tar", texts)
    child = os.fork()
    if not child:
        os.setsid()
        measure_shards(
            source, tmp_path / "out", Recipe(scores=("letters",)), RunOptions(jobs=1, device="cpu")
        )
        os._exit(0)
    while not (found := psutil.Process(child).children(recursive=True)):
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    await_end(*found)
