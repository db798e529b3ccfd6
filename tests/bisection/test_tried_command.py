"""One run of a command: what counts as the same failure, and how it is called."""

import os
import sys
from pathlib import Path

import pytest

from wdsflow.bisection.tried_command import CannotStart, RunEnd, TriedCommand, filled, last_exception

PYTHON = [sys.executable, "-S", "-E", "-c"]


@pytest.mark.parametrize(
    ("end", "failed", "text"),
    [
        (RunEnd("passes"), False, "passes"),
        (RunEnd("is unfinished"), False, "is unfinished"),
        (RunEnd("hangs"), True, "hangs"),
        (RunEnd("prints", 0, "nan"), True, "prints 'nan'"),
        (RunEnd("fails", 3), True, "fails with status 3"),
        (RunEnd("fails", 1, "ValueError: x"), True, "fails with status 1, ValueError: x"),
        (RunEnd("fails", -9), True, "fails with SIGKILL"),
    ],
)
def test_an_end_has_words_and_is_a_failure_or_not(end, failed, text):
    assert (end.failed, str(end), end.same_failure(end)) == (failed, text, failed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (RunEnd("fails", 1, "E: 27 at 0x7f"), RunEnd("fails", 1, "E: 3 at 0xaa", 9.0, "more"), True),
        (RunEnd("fails", 1, "E: no a/b.tar"), RunEnd("fails", 1, "E: no /c/d.tar"), True),
        (RunEnd("fails", 1, "E: one"), RunEnd("fails", 1, "E: other"), False),
        (RunEnd("fails", 1), RunEnd("fails", 2), False),
        (RunEnd("fails", 0), RunEnd("hangs", 0), False),
        (RunEnd("passes"), RunEnd("passes"), False),
    ],
)
def test_a_failure_is_the_same_whatever_numbers_and_paths_it_names(one, other, same):
    assert one.same_failure(other) is other.same_failure(one) is same


def test_the_last_exception_is_the_line_behind_the_last_traceback():
    mark = "Traceback (most recent call last):\n"
    assert last_exception("ValueError: no traceback") == ""
    assert last_exception(f"{mark}  a\nValueError: one\n{mark}  b\n\n\tc\nOSError: two\nend") == "OSError: two"
    assert last_exception(f"[0]: {mark}[0]:   a.py\n[0]: KeyError: 'x'") == "KeyError: 'x'"
    assert last_exception(f"{mark}ValueError: directly\n  indented") == "ValueError: directly"
    assert last_exception(f"{mark}  cut") == ""


def test_placeholders_are_filled_in_each_word():
    words = ["{folder}/x", "{shards}{samples}", "{run}", "{other}", "{{shards}}"]
    assert filled(words, Path("a/{0..1}.tar"), 7, "NEW") == ["a/x", "a/{0..1}.tar7", "NEW", "{other}", "{a/{0..1}.tar}"]


def test_a_run_says_how_it_ended_and_leaves_no_folder():
    def run(code, *words, **options):
        return TriedCommand([*PYTHON, f"import os, sys, time\n{code}", *words], **options).run(Path("s/0.tar"), 3)

    end = run("print(sys.argv[1:], len(os.listdir(sys.argv[3]))); print(sys.argv[3])", "{shards}", "{samples}", "{run}")
    said, folder = end.output.splitlines()
    assert (end, said.endswith("'] 0"), said.startswith("['s/0.tar', '3', '/")) == (RunEnd("passes"), True, True)
    assert not os.path.exists(folder)
    assert run("sys.exit(7)") == RunEnd("fails", 7)
    assert run("print('x' * 70_000); 1 / 0") == RunEnd("fails", 1, "ZeroDivisionError: division by zero")
    assert run("print('loss is nan' + ' ' * 70_000)", match="loss is nan") == RunEnd("prints", 0, "loss is nan")
    assert run("sys.exit(1)", match="loss is nan") == RunEnd("passes")
    assert len(run("print('x' * 70_000)").output) == 64 << 10
    assert run("time.sleep(600)", hang_after=0.3) == RunEnd("hangs")
    sleeping = TriedCommand([*PYTHON, "import time; time.sleep(600)"])
    assert sleeping.run(Path("0.tar"), 1, limit=0.3) == RunEnd("is unfinished")
    with pytest.raises(CannotStart, match=r"there is no program \./none, or it may not be run"):
        TriedCommand(["./none"]).run(Path("0.tar"), 1)
