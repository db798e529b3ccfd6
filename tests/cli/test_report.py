"""``wdsflow report``: what it writes, and what it refuses."""

from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import write_shards

SCORE = ("score", "in", "-o", "scores", "--scores", "min_side,format", "--workers", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with shards, and a run that is finished."""
    folder = tmp_path_factory.mktemp("report")
    write_shards(folder / "in", shards=1, samples=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(*SCORE).status == 0
    return folder


def test_the_page_is_in_the_folder_of_the_run_or_where_it_is_asked_for(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = run("report", "scores")
    assert done.status == 0
    assert "wrote scores/_wdsflow/report.html, 0.1 MB" in done.out
    elsewhere = run("report", "scores", "-o", "page.html", "--no-pictures")
    assert elsewhere.status == 0
    assert "data:image" not in Path("page.html").read_text()
    assert "data:image" in Path("scores/_wdsflow/report.html").read_text()
    assert "1 of them done before" in run(*SCORE).out  # a page is no reason to score again


@pytest.mark.parametrize("words", [("report",), ("report", "in"), ("report", "scorse")])
def test_a_folder_without_a_run_is_refused_with_the_nearest_that_has_one(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    done = run(*words)
    assert done.status == 2
    assert done.commands == ["wdsflow report scores"]
    assert pasted(done.commands[0]).status == 0


def test_a_page_that_cannot_be_written_says_where_it_could(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = run("report", "scores", "-o", "in")
    assert (done.status, done.commands) == (2, ["wdsflow report scores -o in-2"])
    assert pasted(done.commands[0]).status == 0


def test_a_run_without_numbers_has_a_page_without_sliders(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("score", "in", "-o", "formats", "--scores", "format", "--workers", 0).status == 0
    assert run("report", "formats").status == 0
    text = Path("formats/_wdsflow/report.html").read_text()
    assert "Choose thresholds" not in text
    assert "<td>jpeg</td><td>8</td>" in text
