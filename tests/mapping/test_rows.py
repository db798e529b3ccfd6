"""bounded_map over iterables: rows come back in order, whatever fails."""

import logging
import os
import signal

import pytest

import wdsflow
from tests.processes import await_end, living_children
from wdsflow.mapping import Mapped, MappingError
from wdsflow.mapping.map_worker import MapWorker
from wdsflow.memory.usage import pss_bytes

MEMORY = "3GiB"  # this process has torch and more


def test_rows_are_mapped_in_order_by_several_workers():
    import time

    def fn(numbers):
        time.sleep(0.01 * (numbers[0] % 3))  # batches end in another order than they began
        return [number * number for number in numbers]

    found = wdsflow.bounded_map(range(3000), fn, MEMORY, workers=3, batch_size=50)
    assert next(found) == 0
    assert list(found) == [number * number for number in range(1, 3000)]


def test_rows_with_columns_give_columns_and_keep_the_others():
    rows = [{"a": number, "b": str(number)} for number in range(30)] + [{"a": 30, "c": 1}]

    def fn(columns, indices, plus):
        return {"sum": [a + plus for a in columns["a"]], "index": indices}

    found = list(
        wdsflow.bounded_map(
            rows, fn, MEMORY, 1, with_indices=True, fn_kwargs={"plus": 5}, remove_columns="b"
        )
    )
    assert found == [{"a": n, "sum": n + 5, "index": n} for n in range(30)] + [
        {"a": 30, "c": 1, "sum": 35, "index": 30}
    ]


def test_a_function_may_give_more_or_fewer_rows():
    def fn(columns):
        return {"c": [char for text in columns["t"] for char in text]}

    rows = [{"t": "ab"}, {"t": ""}, {"t": "cde"}]
    found = wdsflow.bounded_map(rows, fn, MEMORY, 1, remove_columns=["t"])
    assert "".join(row["c"] for row in found) == "abcde"


@pytest.mark.deep
def test_rows_that_fail_or_kill_their_worker_are_put_aside_each_by_itself():
    def fn(columns):
        for number in columns["n"]:
            if number == 137:
                os.kill(os.getpid(), signal.SIGSEGV)
            if number == 200:
                raise ValueError("not this one")
            if number == 301:
                os._exit(3)
        return {"twice": [2 * number for number in columns["n"]]}

    rows = [{"n": number} for number in range(400)]
    found = wdsflow.bounded_map(rows, fn, MEMORY, 2, "quarantine", batch_size=64)
    assert isinstance(found, Mapped)
    assert [row["twice"] for row in found.rows] == [
        2 * n for n in range(400) if n not in {137, 200, 301}
    ]
    assert [(row.index, row.row) for row in found.quarantined] == [
        (n, {"n": n}) for n in (137, 200, 301)
    ]
    segfault, error, ended = (row.error for row in found.quarantined)
    assert "SIGSEGV" in segfault
    assert error == "ValueError: not this one"
    assert "exit status 3" in ended


def test_the_first_row_that_fails_is_named_with_its_error_and_where_it_was_raised():
    def fn(numbers):
        return [1 // (number % 40 - 33) for number in numbers]

    found = wdsflow.bounded_map(range(500), fn, MEMORY, 2)
    with pytest.raises(MappingError, match=r"row 33: ZeroDivisionError") as caught:
        list(found)
    assert caught.value.index == 33
    assert "in fn" in caught.value.detail


def test_rows_that_are_dropped_are_counted_in_the_log(caplog):
    def fn(numbers):
        return [1 // (number % 20) for number in numbers]

    with caplog.at_level(logging.WARNING, "wdsflow.mapping"):
        assert len(list(wdsflow.bounded_map(range(100), fn, MEMORY, 1, "drop"))) == 95
    assert "5 rows in all are left out" in caplog.text


def test_an_iterable_is_read_only_as_far_as_results_are_asked_for():
    read = []

    def rows():
        for number in range(10**6):
            read.append(number)
            yield number

    found = wdsflow.bounded_map(rows(), lambda numbers: numbers, MEMORY, 1, batch_size=10)
    assert [next(found) for _ in range(20)] == list(range(20))
    assert len(read) < 100_000
    found.close()


@pytest.mark.deep
@pytest.mark.parametrize("which", ["rows", "dataset"])
def test_no_worker_stays_where_somebody_keeps_the_error(which):
    datasets = pytest.importorskip("datasets")
    rows = [{"n": number} for number in range(30)]
    given = rows if which == "rows" else datasets.Dataset.from_list(rows)
    before = living_children()
    with pytest.raises(MappingError) as kept:
        list(
            wdsflow.bounded_map(
                given, lambda columns: {"n": [1 // (n - 20) for n in columns["n"]]}, MEMORY, 2
            )
        )
    assert kept.value.index == 20
    assert not living_children(before)


def test_rows_before_an_error_of_the_iterable_come_out_first():
    def rows():
        yield from range(70)
        raise OSError("the line is gone")

    found = wdsflow.bounded_map(rows(), lambda numbers: numbers, MEMORY, 1, batch_size=8)
    seen = []
    with pytest.raises(OSError, match="the line is gone"):
        seen.extend(found)
    assert seen == list(range(70))


@pytest.mark.deep
def test_rows_are_counted_as_they_lie_and_not_by_the_labels_of_a_series():
    pandas = pytest.importorskip("pandas")

    def fn(columns):
        turned = pandas.Series(columns["n"]).sort_values(ascending=False)
        return {
            "n": columns["n"],
            "turned": turned,
            "tens": pandas.Series(columns["n"], index=columns["n"]) * 10,
        }

    rows = [{"n": number} for number in (3, 9, 5, 7)]
    found = list(wdsflow.bounded_map(rows, fn, MEMORY, 1))
    assert [row["tens"] for row in found] == [30, 90, 50, 70]
    assert [row["turned"] for row in found] == [3, 9, 5, 7]  # batches of 1 and 2 rows: 3; 9, 5; 7


def test_rows_whose_class_a_worker_cannot_find_end_the_run_and_are_not_dropped(monkeypatch):
    import sys
    import types

    script = types.ModuleType("a_script")
    monkeypatch.setitem(sys.modules, "a_script", script)
    exec("class Row:\n    pass", vars(script))  # as a script that is run defines its own
    with pytest.raises(MappingError, match="class must be importable"):
        list(wdsflow.bounded_map([script.Row()], len, MEMORY, 1, "drop"))


def test_a_text_is_no_column():
    with pytest.raises(MappingError, match="fn returned str for 'c'"):
        list(wdsflow.bounded_map([{"n": 1}], lambda columns: {"c": "x"}, MEMORY, 1))


def test_no_more_workers_start_than_there_are_rows_for(monkeypatch):
    from wdsflow.mapping import worker_pool

    started = []

    def start(setup):
        started.append(setup)
        return MapWorker(setup)

    monkeypatch.setattr(worker_pool, "MapWorker", start)
    assert list(wdsflow.bounded_map([1, 2], lambda numbers: numbers, MEMORY, 16)) == [1, 2]
    assert len(started) == 1


def test_a_function_that_takes_a_batch_for_a_whole_is_told_of(caplog):
    def fn(columns):
        return {"n": columns["n"], "most": [max(columns["n"])]}  # one value, whatever the rows

    with caplog.at_level(logging.WARNING, "wdsflow.mapping"):
        found = list(wdsflow.bounded_map([{"n": number} for number in range(9)], fn, MEMORY, 1))
    assert [row["most"] for row in found] == list(range(9))
    assert caplog.text.count("failed together") == 1
    assert (
        "rows 1 to 2 failed together (ValueError: the columns have different numbers" in caplog.text
    )


def test_a_row_that_needs_more_than_there_is_is_named_and_costs_only_itself():
    def fn(sizes):
        return [len(bytearray(size)) for size in sizes]

    sizes = [1000] * 50 + [20 << 30] + [1000] * 50
    found = wdsflow.bounded_map(sizes, fn, MEMORY, 2, "quarantine")
    assert list(found.rows) == [1000] * 100
    assert [row.index for row in found.quarantined] == [50]
    assert "MemoryError" in found.quarantined[0].error
    assert "of 3 GiB" in found.quarantined[0].error


def test_what_cannot_work_is_said_before_the_first_row():
    running = (number for number in range(3))
    with pytest.raises(TypeError, match="fn cannot be sent to a worker process"):
        wdsflow.bounded_map([1], lambda rows: [next(running) for _ in rows], MEMORY)
    with pytest.raises(ValueError, match="on_error"):
        wdsflow.bounded_map([1], list, MEMORY, on_error="ignore")
    with pytest.raises(ValueError, match="workers"):
        wdsflow.bounded_map([1], list, MEMORY, workers=0)
    with pytest.raises(ValueError, match="batch_size"):
        wdsflow.bounded_map([1], list, MEMORY, batch_size=None)
    with pytest.raises(ValueError, match="iterable of rows"):
        wdsflow.bounded_map("text", list, MEMORY)
    with pytest.raises(ValueError, match=r"iterable of rows, .*; map each split by itself$"):
        wdsflow.bounded_map({"train": [1]}, list, MEMORY)
    for more in ({"features": {}}, {"folder": "results"}):
        with pytest.raises(ValueError, match=r"^features and folder are for a datasets\.Dataset: "):
            wdsflow.bounded_map([1], list, MEMORY, **more)
    with pytest.raises(MappingError, match="too little memory"):
        list(wdsflow.bounded_map([1], list, "20MiB"))


def test_a_process_that_the_function_started_ends_with_its_worker(tmp_path):
    def fn(numbers):
        import subprocess

        child = subprocess.Popen(["sleep", "600"])
        (tmp_path / "pid").write_text(str(child.pid))
        os._exit(1)

    with pytest.raises(MappingError, match="exit status 1"):
        list(wdsflow.bounded_map([1], fn, MEMORY, 1))
    await_end(int((tmp_path / "pid").read_text()))


@pytest.mark.deep
def test_what_the_function_started_counts_as_its_memory():
    def fn(sizes):
        import subprocess
        import sys

        free = "import resource, sys, time; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)); "
        script = f"{free} block = b'x' * int(sys.argv[1]); time.sleep(600 * (len(block) > 100))"
        for size in sizes:
            subprocess.run([sys.executable, "-c", script, str(size)], check=True)
        return sizes

    found = wdsflow.bounded_map(
        [10, 1 << 30, 20], fn, pss_bytes(os.getpid()) + (600 << 20), 1, "quarantine"
    )
    assert list(found.rows) == [10, 20]
    assert [row.index for row in found.quarantined] == [1]
    assert "more memory" in found.quarantined[0].error


def test_no_process_and_no_file_is_left_behind(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = living_children(recursive=True)
    found = wdsflow.bounded_map(range(100), lambda numbers: numbers, MEMORY, 2)
    assert next(found) == 0
    found.close()
    assert not living_children(before, recursive=True)
    assert list(tmp_path.iterdir()) == []
