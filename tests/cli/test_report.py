"""``wdsflow report``: what it writes, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import write_shards

SCORE = ("measure", "in", "-o", "scores", "--scores", "min_side,format", "--jobs", 0)


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
    assert "wrote scores/.wdsflow/report.html, 0.1 MB" in done.out
    elsewhere = run("report", "scores", "-o", "page.html", "--no-pictures")
    assert elsewhere.status == 0
    assert "data:image" not in Path("page.html").read_text()
    assert "data:image" in Path("scores/.wdsflow/report.html").read_text()
    assert "1 of them done before" in run(*SCORE).out  # a page is no reason to score again


@pytest.mark.parametrize("words", [("report",), ("report", "in"), ("report", "scorse")])
def test_a_folder_without_a_run_is_refused_with_the_nearest_that_has_one(
    folder, monkeypatch, words
):
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
    assert "out" in run("report", "scores", "-o", ".").commands[0]


@pytest.mark.deep
def test_a_page_is_written_though_the_shards_are_gone_and_says_what_the_run_lacks(
    folder, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in "abcde":
        shutil.copy(folder / "in/00000.tar", f"in/{name}.tar")
    assert run("measure", "in", "-o", "scores", "--scores", "min_side", "--jobs", 0).status == 0
    for path in Path("in").iterdir():
        path.unlink()
    assert run("report", "scores").status == 0
    page, file = Path("scores/.wdsflow/report.html"), Path("scores/.wdsflow/run.json")
    assert "not finished" not in page.read_text()
    asked = json.loads(file.read_bytes())
    file.write_text(json.dumps({**asked, "urls": [*asked["urls"], "in/f.tar"]}))
    assert run("report", "scores").status == 0
    assert "<b>The run is not finished</b>: 1 more" in page.read_text()


@pytest.mark.parametrize("asked", [[], {"kind": "filter", "recipe": {"where": "of_mine > 3"}}])
def test_a_run_that_cannot_be_understood_is_refused_in_words(folder, monkeypatch, tmp_path, asked):
    monkeypatch.chdir(folder)
    shutil.copytree("scores", tmp_path / "odd")
    (tmp_path / "odd/.wdsflow/run.json").write_text(json.dumps(asked))
    done = run("report", tmp_path / "odd")
    assert done.status == 2
    assert "run.json is damaged" in done.err or "no score is called 'of_mine'" in done.err


def test_a_run_without_numbers_has_a_page_with_boxes_to_tick(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert (
        run("measure", folder / "in", "-o", "formats", "--scores", "format", "--jobs", 0).status
        == 0
    )
    assert run("report", "formats").status == 0
    text = Path("formats/.wdsflow/report.html").read_text()
    assert 'class="low"' not in text
    assert '<span>jpeg</span> <span class="dim">8</span>' in text


def test_a_run_that_finished_no_shard_is_still_the_nearest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wdsflow.cli.shared.nearest_paths import nearest_ledger

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shards").mkdir()
    assert nearest_ledger(Path("scores")) is None
    (tmp_path / "scored" / ".wdsflow").mkdir(parents=True)
    (tmp_path / "scored" / ".wdsflow" / "run.json").write_text("{}")
    (tmp_path / "others" / ".wdsflow" / "ledger").mkdir(parents=True)
    assert nearest_ledger(Path("scores")) == Path("scored")
    assert nearest_ledger(Path("other")) == Path("others")
