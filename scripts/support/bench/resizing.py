"""Making pictures of shards smaller, compared with Pillow and img2dataset.

Pillow runs in a webdataset loop; OpenCV resizes as img2dataset does.

The clock runs from the call to its end. Libraries are imported before.
"""

import io
import math
import os
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Literal

from . import filtering

SIDE = 512
QUALITY = 95


def ours(
    paths: Sequence[str], clock: filtering.MakeClock, mode: Literal["fast", "exact"]
) -> dict[str, Any]:
    """`wdsflow filter --resize 512`, in one process."""
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_filter import filter_shards

    _, options = filtering.recipe_and_options("True")
    with filtering.folder_near(paths) as folder:
        timer = clock()
        report = filter_shards(
            paths, folder, Recipe(resize=str(SIDE), resize_mode=mode, quality=QUALITY), options
        )
        resized = report.merged("resized")["images"]
        result: dict[str, Any] = timer.stop(samples=report.total("samples"), seen=resized)
    return result


def loop(
    paths: Sequence[str], clock: filtering.MakeClock, make_smaller: Callable[[bytes], bytes]
) -> dict[str, Any]:
    """Read by webdataset, make the picture smaller, write by webdataset's TarWriter."""
    from webdataset import TarWriter, WebDataset

    with filtering.folder_near(paths) as folder:
        timer = clock()
        samples = 0
        for path in paths:
            with TarWriter(os.path.join(folder, os.path.basename(path)), encoder=False) as tar:
                for sample in WebDataset([path], shardshuffle=False):
                    samples += 1
                    del sample["__url__"], sample["__local_path__"]
                    tar.write({**sample, "jpg": make_smaller(sample["jpg"])})
        result: dict[str, Any] = timer.stop(samples=samples, seen=samples)
    return result


def pillow(data: bytes) -> bytes:
    """Decode at full size, Lanczos, encode."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    image = image.resize(_size(*image.size), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def opencv(data: bytes) -> bytes:
    """Do what img2dataset's Resizer does by default with keep_ratio_largest.

    INTER_AREA, quality 95, one thread.
    """
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert image is not None
    height, width = image.shape[:2]
    image = cv2.resize(image, _size(width, height), interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", image, [int(cv2.IMWRITE_JPEG_QUALITY), QUALITY])[1])


def _size(width: int, height: int) -> tuple[int, int]:
    longer = max(width, height)
    return max(1, round(width * SIDE / longer)), max(1, round(height * SIDE / longer))


def fidelity(paths: Sequence[str], mode: Literal["fast", "exact"]) -> dict[str, float]:
    """Return the mean and the least PSNR, in dB, of our pictures compared with Pillow's.

    Pillow's are resized by its Lanczos and area filters.

    Both from the full size, before they are encoded. PSNR is 10 log10(255^2 / mean squared
    difference) of one picture.
    """
    import numpy as np
    from PIL import Image

    from wdsflow.images.image_header import read_header
    from wdsflow.stages.imaging.shrink import Shrinker
    from wdsflow.stages.imaging.size_rule import SizeRule

    from . import decoding

    shrinker = Shrinker(SizeRule("long", SIDE), image_format="png", mode=mode)
    psnrs: dict[str, list[float]] = {"psnr": [], "area": []}
    for data in decoding.pictures(list(paths)):
        header = read_header(data)
        assert header is not None
        small = shrinker.shrink(data, header, 1 << 30)
        assert small is not None
        pixels = np.asarray(Image.open(io.BytesIO(small.data)), np.float64)
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        for name, kernel in (("psnr", Image.Resampling.LANCZOS), ("area", Image.Resampling.BOX)):
            error = pixels - np.asarray(picture.resize((small.width, small.height), kernel))
            psnrs[name].append(10 * math.log10(255**2 / float(np.square(error).mean())))
    return {name: fmean(values) for name, values in psnrs.items()} | {"least": min(psnrs["psnr"])}
