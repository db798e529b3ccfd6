"""Filtering shards beside a webdataset read, filter and TarWriter loop, and cutting beside a plain copy."""

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

WORDS = 11  # captions of the shards have 6 to 15: half of the samples stay
WHERE = f"min_side >= 200 and aspect_ratio < 3 and caption_words >= {WORDS}"

Stop = Callable[[], Any]


@contextmanager
def beside(paths: Sequence[str]) -> Iterator[str]:
    """Make a folder for outputs on the disk of the shards, for as long as it is used."""
    with tempfile.TemporaryDirectory(prefix="filtering-", dir=os.path.dirname(os.path.dirname(paths[0]))) as folder:
        yield folder


def ours(paths: Sequence[str], clock: Stop) -> dict[str, Any]:
    """`wdsflow filter`, in one process."""
    from wdsflow.filtering.options import RunOptions
    from wdsflow.filtering.recipe import Recipe
    from wdsflow.filtering.run import filter_shards

    with beside(paths) as folder:
        begun = clock()
        report = filter_shards(paths, folder, Recipe(where=WHERE), RunOptions(workers=0))
        result: dict[str, Any] = begun.stop(samples=report.total("samples"), seen=report.total("kept"))
    return result


def webdataset(paths: Sequence[str], clock: Stop) -> dict[str, Any]:
    """Read by webdataset, look at the picture's header by Pillow and at the caption, write by webdataset's TarWriter."""
    from PIL import Image
    from webdataset import TarWriter, WebDataset

    with beside(paths) as folder:
        begun = clock()
        samples = kept = 0
        for path in paths:
            with TarWriter(os.path.join(folder, os.path.basename(path)), encoder=False) as tar:
                for sample in WebDataset([path], shardshuffle=False):
                    samples += 1
                    width, height = Image.open(io.BytesIO(sample["jpg"])).size
                    if min(width, height) < 200 or max(width, height) / min(width, height) >= 3:
                        continue
                    if len(sample["txt"].decode().split()) >= WORDS:
                        del sample["__url__"], sample["__local_path__"]
                        tar.write(sample)
                        kept += 1
        result: dict[str, Any] = begun.stop(samples=samples, seen=kept)
    return result
