"""A run with embeddings that is killed again and again ends with the bytes of one that was not."""

import multiprocessing
import random
from pathlib import Path

import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

from tests.filtering.shards import digests, write_shards
from tests.filtering.test_interruptions import check_names
from tests.stages.scores import tiny_models
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.models.models_at import _models_at

KILLS = 6
HERE = RunOptions(jobs=0, device="cpu")


@pytest.mark.deep
def test_a_run_with_embeddings_that_is_killed_ends_with_the_same_bytes(tmp_path: Path):
    clip = tiny_models.clip(tmp_path / "clip")
    source = write_shards(tmp_path / "in", shards=6, samples=30)
    recipe = Recipe(where=f'clip_similarity(model="{clip}", pretrained="") > 0.05', embeddings=True)
    filter_shards(source, tmp_path / "whole", recipe, HERE)
    whole = digests(tmp_path / "whole")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["wdsflow.filtering.run_filter", "pyarrow.parquet", "open_clip"])
    chance, out, killed = random.Random(5), tmp_path / "out", 0
    longest = 1.0
    for _ in range(10 * KILLS):
        if killed >= KILLS:
            break
        child = context.Process(target=filter_shards, args=(source, out, recipe, HERE))
        child.start()
        child.join(chance.uniform(0, longest))
        child.kill()
        child.join()
        check_names(out, whole)
        if child.exitcode:
            killed += 1
            longest *= 1.1  # on a busy machine nothing would ever be done
        else:
            longest *= 0.5
    assert killed
    filter_shards(source, out, recipe, HERE)
    found = digests(out)
    shown = [name for name in whole if name.endswith((".tar", ".parquet"))]
    assert {name: found[name] for name in shown} == {name: whole[name] for name in shown}
    assert not list(out.rglob("*.tmp"))
    _models_at.cache_clear()  # other tests count the models that are loaded
