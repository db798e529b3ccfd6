"""Tokens and scores of a user's own in processes, however these are started."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.jsonl.files import write_images, write_lines
from tests.filtering.shards import digests
from tests.models import own
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import filter_shards
from wdsflow.filtering.run_options import RunOptions
from wdsflow.stages.scores.score_catalog import all_scores

pytest.importorskip("torch", reason="torch is not installed")

METHODS = ["spawn", pytest.param("fork", marks=pytest.mark.deep), pytest.param("forkserver", marks=pytest.mark.deep)]


@pytest.fixture(autouse=True)
def own_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    own.install(tmp_path / "site", monkeypatch)
    yield
    all_scores.cache_clear()


def lines(folder: Path) -> str:
    names = write_images(folder, 6)
    rows = [
        {"images": names[at : at + 2], "text": f"<image> words of {at} <end><image> and more"} for at in range(0, 6, 2)
    ]
    return str(write_lines(folder, [json.dumps(row).encode() for row in rows]))


@pytest.mark.deep
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.deep), 1])
@pytest.mark.parametrize("method", METHODS)
def test_files_are_the_same_in_a_process_of_any_kind(tmp_path: Path, method: str, workers: int) -> None:
    source = lines(tmp_path / "in")
    recipe = Recipe(
        where="min(letters) >= 7 and max(width) >= 150 and all(caption_words >= 2)",
        scores=("letters(times=2)", "caption_words", "faulty_batch"),
        image_token="<image>",
        chunk_end="<end>",
    )
    report = filter_shards(source, tmp_path / "here", recipe, RunOptions(jobs=0, device="cpu"))
    assert (report.total("samples"), report.total("kept")) == (3, 3)
    options = RunOptions(jobs=workers, device="cpu")
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=filter_shards, args=(source, tmp_path / "there", recipe, options))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert digests(tmp_path / "there") == digests(tmp_path / "here")


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS)
def test_a_token_that_occurs_nowhere_keeps_nothing_in_a_process_of_any_kind(tmp_path: Path, method: str) -> None:
    source = lines(tmp_path / "in")
    recipe = Recipe(where="min(letters) >= 0", image_token="<picture>", chunk_end="<end>")
    with multiprocessing.get_context(method).Pool(1) as pool:
        options = RunOptions(jobs=1, device="cpu")
        report = pool.apply_async(filter_shards, (source, tmp_path / "out", recipe, options)).get()
    assert (report.total("kept"), report.whole) == (0, False)
    assert "no text has the token '<picture>'; the texts have '<image>'" in report.failures[0].reason
    assert not list((tmp_path / "out").glob("data*"))
