"""How closely pictures of mode "fast" match those of mode "exact".

The pictures are those that a loader for evaluation returns.
"""

import json
import math
import sys
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from support.bench.loading import Plan, loader

# OpenCLIP's, which the pixels were divided by.
STD = (0.26862954, 0.26130258, 0.27577711)


def measure(paths: list[str]) -> dict[str, float]:
    """Return the mean and the least PSNR over the pictures that differ between the modes.

    PSNR is 10 log10(255^2 / mean squared difference), over the three channels of one picture of 224
    x 224. Pictures that are equal in both modes (their PSNR is infinite) are counted, and stay out
    of the mean.
    """
    psnrs = []
    for fast, exact in zip(pictures(paths, "fast"), pictures(paths, "exact"), strict=True):
        difference = (fast - exact).double()
        levels = [255 * std * difference[channel] for channel, std in enumerate(STD)]
        error = fmean(float(level.square().mean()) for level in levels)
        psnrs.append(10 * math.log10(255**2 / error) if error > 1e-6 else math.inf)
    differ = [psnr for psnr in psnrs if math.isfinite(psnr)]
    if not differ:
        raise SystemExit("all pictures are equal in both modes")
    return {
        "psnr": fmean(differ),
        "least": min(differ),
        "differ": len(differ),
        "pictures": len(psnrs),
    }


def pictures(paths: list[str], mode: Any) -> Iterator[Any]:
    """Yield normalised pictures (3, 224, 224), in the order of the shards."""
    plan = Plan("peak", train=False, decode=mode, batch=16, workers=1)
    data = loader("wdsflow", plan, paths, 0)().dataloader
    for images, _ in data:
        yield from images
    data.close()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
