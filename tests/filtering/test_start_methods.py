"""A user's own scores in processes, however these are started."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.shards import digests, write_shards
from tests.models import own
from wdsflow import Recipe, RunOptions, filter_shards

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(autouse=True)
def own_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.install(tmp_path / "site", monkeypatch)


@pytest.mark.deep
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_files_are_the_same_however_the_process_was_started(
    tmp_path: Path, method: str, workers: int
) -> None:
    source = write_shards(tmp_path / "in", shards=1, samples=8)
    recipe = Recipe(
        where="letters >= 7 and width >= 150 and caption_words >= 2",
        scores=("letters(times=2)", "caption_words", "faulty_batch"),
    )
    report = filter_shards(source, tmp_path / "here", recipe, RunOptions(jobs=0, device="cpu"))
    assert 0 < report.total("kept") < report.total("samples") == 8
    options = RunOptions(jobs=workers, device="cpu")
    context: Any = multiprocessing.get_context(method)
    process = context.Process(
        target=filter_shards, args=(source, tmp_path / "there", recipe, options)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert digests(tmp_path / "there") == digests(tmp_path / "here")
