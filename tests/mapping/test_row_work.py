"""What a mapping worker does with a batch, run in this process.

Covers writing rows to files, kinds of failures, and types.
"""

import errno
import logging
import os
import pickle
import resource
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest

from wdsflow.mapping.batch_failures import BatchFailures
from wdsflow.mapping.errors import UnreadableError
from wdsflow.mapping.failure_kinds import _is_memory, failure_of, refusal_of
from wdsflow.mapping.messages import Done, Failed, MapOrder, Measure, RowBatch
from wdsflow.mapping.row_files import read_rows
from wdsflow.mapping.row_work import RowSource, RowWork
from wdsflow.mapping.worker_process import _bounded, _mapped
from wdsflow.memory.usage import private_data_bytes
from wdsflow.text.shell import escape


def batch_of(*rows: Any, start: int = 0) -> RowBatch:
    return RowBatch(start, start + len(rows), tuple(map(pickle.dumps, rows)))


def worked(work: RowWork, batch: RowBatch, path: Path) -> list[Any]:
    count = work.map(batch, str(path))
    found = list(read_rows(path))
    assert count == len(found)
    return found


COLUMNS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("fn", "more", "expected"),
    [
        (lambda rows: None, {}, COLUMNS),
        (lambda rows: {"c": [each * 2 for each in rows["a"]]}, {}, [{**COLUMNS[0], "c": 2}, {**COLUMNS[1], "c": 4}]),
        (lambda rows: {"c": rows["b"]}, {"remove_columns": ("a", "b")}, [{"c": "x"}, {"c": "y"}]),
        (lambda rows: UserDict(c=(3,)), {"remove_columns": ("a", "b")}, [{"c": 3}]),
        (lambda rows, numbers, k: {"a": [each + k for each in numbers]}, {"with_indices": True, "fn_kwargs": {"k": 1}}, [{"a": 6, "b": "x"}, {"a": 7, "b": "y"}]),
        (lambda rows: {}, {"remove_columns": ("a",)}, [{"b": "x"}, {"b": "y"}]),
    ],
)  # fmt: skip
def test_columns_of_a_batch_are_replaced_added_and_removed(tmp_path, fn, more, expected):
    assert worked(RowWork(fn, **more), batch_of(*COLUMNS, start=5), tmp_path / "rows") == expected


def test_rows_without_columns_give_what_the_function_gives_one_by_one(tmp_path):
    work = RowWork(
        lambda rows, numbers: (each * at for at in numbers for each in rows), with_indices=True
    )
    assert worked(work, batch_of(7, 8, start=2), tmp_path / "rows") == [14, 16, 21, 24]
    assert worked(RowWork(lambda rows: []), batch_of(7, 8), tmp_path / "none") == []


@pytest.mark.parametrize(
    ("fn", "rows", "error", "says"),
    [
        (lambda rows: [1], COLUMNS, TypeError, "fn returned list; for rows with columns it returns a mapping of columns"),
        (lambda rows: "ab", [1, 2], TypeError, "fn returned str; it returns a list with a result for each row"),
        (lambda rows: b"ab", [1, 2], TypeError, "fn returned bytes; it returns a list"),
        (lambda rows: {"a": [1]}, [1, 2], TypeError, "fn returned dict; it returns a list"),
        (lambda rows: 5, [1, 2], TypeError, "fn returned int; it returns a list"),
        (lambda rows: None, [1, 2], TypeError, "fn returned NoneType; it returns a list"),
        (lambda rows: {"a": "text"}, COLUMNS, TypeError, "fn returned str for 'a'; a column is a list of values"),
        (lambda rows: {"a": {1: 2}}, COLUMNS, TypeError, "fn returned dict for 'a'; a column is a list of values"),
        (lambda rows: {"a": iter([1])}, COLUMNS, TypeError, "fn returned list_iterator for 'a'; a column is"),
        (lambda rows: {"c": [1]}, COLUMNS, ValueError, r"different numbers of rows \(a: 2, b: 2, c: 1\); remove the replaced"),
    ],
)  # fmt: skip
def test_results_that_are_no_rows_are_refused_with_their_type(tmp_path, fn, rows, error, says):
    with pytest.raises(error, match=says):
        RowWork(fn).map(batch_of(*rows), str(tmp_path / "rows"))


def test_a_part_of_a_tensor_does_not_take_the_whole_along(tmp_path):
    torch = pytest.importorskip("torch")
    work = RowWork(lambda rows: {"a": torch.zeros(2, 100_000)})
    assert [each["a"].shape for each in worked(work, batch_of(*COLUMNS), tmp_path / "rows")] == [
        (100_000,)
    ] * 2
    assert os.path.getsize(tmp_path / "rows") < 1_000_000


def test_a_batch_holds_rows_of_the_same_columns_up_to_its_number_and_room():
    rows = [{"a": "x" * 100}, {"a": "y" * 100}, {"b": 1}, {"b": 2}, {"a": 3}, 4, 5, 6]
    source = RowSource(rows)
    assert source.rows_left() == 8
    size = len(pickle.dumps(rows[0], pickle.HIGHEST_PROTOCOL))
    taken = [
        source.take(9, 2 * size),
        source.take(1, 1000),
        source.take(9, 1),
        source.take(9, 1000),
        source.take(2, 1000),
    ]
    assert [(each.start, each.stop, len(each.rows)) for each in taken if each] == [(0, 2, 2), (2, 3, 1), (3, 4, 1), (4, 5, 1), (5, 7, 2)]  # fmt: skip
    assert source.rows_left() == 1
    last = source.take(9, 1000)
    assert last is not None
    assert [pickle.loads(data) for data in last.rows] == [6]
    assert source.take(9, 1000) is None
    assert source.rows_left() == 0
    source.finish()
    one = RowSource(rows).take(9, 2 * size - 1)
    assert one is not None
    assert len(one) == 1
    assert RowSource(iter(rows)).rows_left() is None


def test_what_an_iterable_raises_comes_after_its_rows():
    def rows():
        yield 1
        raise KeyError("broken")

    source = RowSource(rows())
    assert source.take(5, 1000) is not None
    assert source.take(5, 1000) is None
    assert source.take(5, 1000) is None
    with pytest.raises(KeyError, match="broken"):
        source.finish()


def test_a_row_that_cannot_be_pickled_is_reported_and_a_lambda_is_sent():
    source = RowSource([lambda: 5, (each for each in "ab")])
    sent = source.take(5, 1 << 20)
    assert sent is not None
    assert pickle.loads(sent.rows[0])() == 5
    with pytest.raises(TypeError, match=r"^a row cannot be sent to a worker process \(TypeError"):
        source.finish()


def following(last: Exception, *causes: BaseException, context: bool = False) -> Exception:
    found: BaseException = last
    for cause in causes:
        if context:
            found.__context__ = cause
        else:
            found.__cause__ = cause
        found = cause
    return last


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), "error"),
        (MemoryError(), "memory"),
        (OutOfMemoryError("x"), "memory"),
        (OSError(errno.ENOMEM, "x"), "memory"),
        (OSError(errno.EIO, "x"), "error"),
        (RuntimeError("Can't start new thread"), "memory"),
        (RuntimeError("std: Cannot Allocate Memory"), "memory"),
        (RuntimeError("unable to allocate 3 GiB"), "memory"),
        (following(ValueError("x"), MemoryError()), "memory"),
        (following(ValueError("x"), KeyError("y"), MemoryError(), context=True), "memory"),
        (following(ValueError("x"), KeyError("y"), OSError(errno.ENOSPC, "y")), "full"),
        (following(ValueError("x"), SystemExit("out of memory")), "error"),
        (OSError(errno.EFBIG, "x"), "full"),
        (OSError(errno.EDQUOT, "x"), "full"),
        (UnreadableError("x"), "refused"),
        (following(UnreadableError("x"), MemoryError()), "refused"),
        (Unprintable(), "error"),
        (following(Unprintable(), MemoryError()), "memory"),
        (
            following(ValueError("0"), *(KeyError(str(at)) for at in range(30)), MemoryError()),
            "memory",
        ),
    ],
)
def test_a_failure_is_of_the_memory_of_the_disk_or_of_the_function(error, kind):
    assert failure_of(error).kind == kind
    assert _is_memory(error) is (kind == "memory" or error.__cause__.__class__ is MemoryError)


def test_a_failure_has_the_error_in_one_line_and_its_traceback():
    try:
        {}["x"]
    except KeyError as error:
        failed = failure_of(error)
    assert failed.text == "KeyError: 'x'"
    assert failed.detail.startswith("Traceback")
    assert failed.detail.endswith("KeyError: 'x'\n")
    assert refusal_of(ValueError("x")).kind == "refused"


def test_a_batch_that_is_mapped_or_fails_comes_with_what_it_took(tmp_path):
    work = RowWork(lambda rows: [bytearray(40 << 20)[:1] for _ in rows])
    done = _mapped(work, MapOrder(batch_of(1, 2), str(tmp_path / "done"), 1 << 40))
    assert isinstance(done, Done)
    assert done.answer == 2
    assert done.measure.results == work.results > 0
    assert done.measure.peak >= done.measure.before > 0
    assert done.measure.after > 0
    failed = _mapped(
        RowWork(lambda rows: rows[5]), MapOrder(batch_of(1), str(tmp_path / "failed"), 1 << 40)
    )
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.text) == ("error", "IndexError: list index out of range")
    assert failed.measure is not None
    assert failed.measure.results == 0


@pytest.mark.parametrize(
    ("measure", "grown"),
    [((10, 50, 20, 5), 40), ((30, 50, 20, 5), 30), ((10, 12, 11, 9), 9), ((10, 5, 12, 0), 0)],
)
def test_a_batch_took_what_it_grew_by_or_at_least_its_results(measure, grown):
    assert Measure(*measure).growth == grown


def test_halves_of_a_batch_have_its_rows():
    first, second = RowBatch(4, 9, (b"a", b"b", b"c", b"d", b"e"), alone=True).halves()
    assert first == RowBatch(4, 6, (b"a", b"b"))
    assert second == RowBatch(6, 9, (b"c", b"d", b"e"))


def test_a_batch_that_failed_of_which_no_row_did_is_reported_once(caplog):
    caplog.set_level(logging.WARNING)
    failures, failed = BatchFailures(), Failed("error", "ValueError: x")
    failures.add(RowBatch(0, 4), failed)
    failures.record_done(RowBatch(0, 2), failed=False)
    failures.record_done(RowBatch(3, 4), failed=True)  # this row was why
    assert not caplog.messages
    failures.add(RowBatch(4, 8), failed)
    failures.add(RowBatch(8, 12), failed)
    failures.record_done(RowBatch(4, 5), failed=False)
    failures.record_done(RowBatch(8, 9), failed=True)  # of the next batch
    assert caplog.messages == [
        "rows 4 to 7 failed together (ValueError: x), but not in smaller batches: does fn take a batch for a whole?"
    ]
    failures.add(RowBatch(12, 16), failed)
    failures.record_done(RowBatch(14, 16), failed=False)
    assert len(caplog.messages) == 1

    others = BatchFailures()
    others.add(RowBatch(0, 4), Failed("error", "x" * 400))
    others.record_done(RowBatch(2, 3), failed=False)
    assert len(caplog.messages) == 1
    others.record_done(RowBatch(3, 4), failed=False)
    assert (
        caplog.messages[1]
        == f"rows 0 to 3 failed together ({escape('x' * 400, 300)}), but not in smaller batches: does fn take a batch for a whole?"
    )


@pytest.mark.skipif(not private_data_bytes(), reason="the system does not tell")
def test_a_batch_has_the_room_that_it_is_given_and_the_limit_is_taken_back():
    before, room = resource.getrlimit(resource.RLIMIT_DATA), 512 << 20
    with _bounded(room):
        most, hard = resource.getrlimit(resource.RLIMIT_DATA)
        assert abs(most - private_data_bytes() - room) < 64 << 20
        assert hard == before[1]
        with _bounded(2 * room):  # what is bounded already stays so
            assert resource.getrlimit(resource.RLIMIT_DATA) == (most, hard)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
