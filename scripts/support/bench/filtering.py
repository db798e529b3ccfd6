"""Filtering shards, compared with a webdataset loop and with a plain copy.

The loop reads, filters and writes with TarWriter. Filtering by a ledger is compared with the plain
copy.

The clock runs from the call to its end, with all outputs on the disk where ours are concerned:
webdataset and `cp` do not sync. Libraries are imported before.
"""

import io
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Captions of the shards have 6 to 15: half of the samples stay.
WORDS = 11
WHERE = f"min_side >= 200 and aspect_ratio < 3 and caption_words >= {WORDS}"

MakeClock = Callable[[], Any]


@contextmanager
def folder_near(paths: Sequence[str]) -> Iterator[str]:
    """Make a folder for outputs on the disk of the shards, for as long as it is used."""
    with tempfile.TemporaryDirectory(
        prefix="filtering-", dir=os.path.dirname(os.path.dirname(paths[0]))
    ) as folder:
        yield folder


def ours(paths: Sequence[str], clock: MakeClock, where: str = WHERE) -> dict[str, Any]:
    """`wdsflow filter`, in one process."""
    from wdsflow.filtering.run_filter import filter_shards

    recipe, options = recipe_and_options(where)
    with folder_near(paths) as folder:
        timer = clock()
        report = filter_shards(paths, folder, recipe, options)
        result: dict[str, Any] = timer.stop(
            samples=report.total("samples"), seen=report.total("kept")
        )
    return result


def recipe_and_options(where: str) -> tuple[Any, Any]:
    """Import what a run needs; return its recipe and options."""
    import duckdb
    import xxhash

    from wdsflow.filtering.deciding.plan import plan_of
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_options import RunOptions

    del duckdb, xxhash
    recipe = Recipe(where=where)
    plan_of(recipe).identities()
    return recipe, RunOptions(jobs=0)


def webdataset(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Filter with webdataset and Pillow, and write with webdataset's TarWriter.

    Pillow reads the picture's header; the caption is checked too.
    """
    from PIL import Image
    from webdataset import TarWriter, WebDataset

    Image.init()
    with folder_near(paths) as folder:
        timer = clock()
        samples = kept = 0
        for path in paths:
            with TarWriter(os.path.join(folder, os.path.basename(path)), encoder=False) as tar:
                for sample in WebDataset([path], shardshuffle=False):
                    samples += 1
                    width, height = Image.open(io.BytesIO(sample["jpg"])).size
                    if min(width, height) < 200 or width / height >= 3:
                        continue
                    if len(sample["txt"].decode().split()) >= WORDS:
                        del sample["__url__"], sample["__local_path__"]
                        tar.write(sample)
                        kept += 1
        result: dict[str, Any] = timer.stop(samples=samples, seen=kept)
    return result


def by_ledger(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """`wdsflow filter --ledger`, in one process, from a ledger that was made before."""
    with scored_shards(paths) as (folder, scores, recipe, options):
        from wdsflow.filtering.run_filter import filter_shards

        timer = clock()
        report = filter_shards(paths, os.path.join(folder, "kept"), recipe, options, ledger=scores)
        written = _size(os.path.join(folder, "kept"))
        result: dict[str, Any] = timer.stop(samples=report.total("samples"), seen=written)
    return result


def copy(paths: Sequence[str], clock: MakeClock) -> dict[str, Any]:
    """Copy the shards that `wdsflow filter` wrote by `cp`, from a warm page cache."""
    with scored_shards(paths) as (folder, scores, recipe, options):
        from wdsflow.filtering.run_filter import filter_shards

        source, target = os.path.join(folder, "kept"), os.path.join(folder, "copy")
        report = filter_shards(paths, source, recipe, options, ledger=scores)
        names = [entry.path for entry in os.scandir(source) if entry.name.endswith(".tar")]
        subprocess.run(["cat", *names], stdout=subprocess.DEVNULL, check=True)
        os.mkdir(target)
        timer = clock()
        subprocess.run(["cp", *names, target], check=True)
        result: dict[str, Any] = timer.stop(samples=report.total("samples"), seen=_size(target))
    return result


@contextmanager
def scored_shards(paths: Sequence[str]) -> Iterator[tuple[str, str, Any, Any]]:
    """Score shards; give a folder for outputs, that of the scores, the recipe and the options."""
    from wdsflow.filtering.run_filter import measure_shards

    recipe, options = recipe_and_options(WHERE)
    with folder_near(paths) as folder:
        scores = os.path.join(folder, "scored")
        measure_shards(paths, scores, recipe, options)
        yield folder, scores, recipe, options


def _size(folder: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".tar"))
