"""The gate fails if a test is skipped that no line of the list names, or for another reason."""

from pathlib import Path

import pytest

from tests.skips import expected_skips

pytest_plugins = ["pytester"]
CONFTEST = """
from pathlib import Path
from tests.skips import SkipWatch, expected_skips

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipWatch(expected_skips(Path("list.txt"))))
"""
TESTS = {
    "test_one": "import pytest\ndef test_gpu(): pytest.skip('no GPU')\ndef test_fine(): pass",
    "test_whole": "import pytest\npytest.importorskip('no_such_library')",
}


@pytest.mark.parametrize(
    ("workers", "listed", "told"),
    [
        (
            "0",
            "test_whole.py: could not import 'no_such_library'*\ntest_*.py*: no TPU",
            ("test_one.py::test_gpu",),
        ),
        pytest.param(
            "0", "test_*.py*: no GPU\ntest_*.py*: could not import *", (), marks=pytest.mark.deep
        ),
        pytest.param(
            "2", "test_one.py::test_gpu: no GPU", ("test_whole.py",), marks=pytest.mark.deep
        ),
    ],
)
def test_what_is_skipped_is_named_unless_it_is_listed_with_its_reason(
    pytester, monkeypatch, workers, listed, told
):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**TESTS)
    pytester.path.joinpath("list.txt").write_text(listed)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-n", workers)
    assert result.ret == (1 if told else 0)
    printed = result.stdout.str().partition("not in tests/expected_skips.txt")[2]
    assert [
        line.split(": ")[0] for line in printed.splitlines() if ": " in line and "test_" in line
    ][: len(told)] == [*told]


def test_each_line_of_the_list_gives_a_reason(tmp_path):
    assert all(reason for _, reason in expected_skips())
    (tmp_path / "list.txt").write_text("tests/test_one.py\n")
    with pytest.raises(ValueError, match="no reason"):
        expected_skips(tmp_path / "list.txt")
