"""Which versions are installed, and which of them are known not to work together.

Reads installation records only: nothing is imported, so this is fast and cannot fail half-way.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wdsflow.installed import version_of
from wdsflow.text.install import install_packages

# webdataset marks the end of a shard with {} from this version on; OpenCLIP's grouping expects it
# from that one on.
_MARKS_ENDS = (0, 2, 95)
_GROUPS_WITH_MARKS = (4, 3)

# Distributions whose versions change how shards are read, or that doctor reports.
DISTRIBUTIONS = tuple(
    "open_clip_torch webdataset torch torchvision timm transformers numpy pillow simplejpeg "
    "img2dataset datasets ray megatron-energon pyarrow fsspec tensorflow wdsflow".split()
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two installed versions that do not work together."""

    # "open_clip_torch 3.3.0 with webdataset 1.0.2".
    versions: str
    severity: Literal["error", "warning"]
    why: str
    # A Command, or words if no command helps.
    fix: str


def versions() -> dict[str, str]:
    """Return the installed versions of Python and of the distributions of interest.

    Absent distributions are left out.
    """
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in DISTRIBUTIONS:
        version = version_of(name)
        if version is not None:
            found[name] = version
    return found


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, local and pre-release parts left off.

    >>> release_numbers("2.4.1+cu121"), release_numbers("4.2.0.dev0"), release_numbers("unknown")
    ((2, 4, 1), (4, 2, 0), ())
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def version_conflicts(versions: Mapping[str, str]) -> list[Conflict]:
    """Return the pairs of installed versions that are known to fail, the worst first.

    ``versions``: distribution -> version.
    """
    found = [
        check(versions)
        for check in (_webdataset, _torchvision, _start_method, _numpy, _img2dataset)
    ]
    return sorted((each for each in found if each), key=lambda each: each.severity != "error")


def _webdataset(versions: Mapping[str, str]) -> Conflict | None:
    # The end-of-shard marker {} came with 0.2.95; group_by_keys_nothrow, unchanged up to OpenCLIP
    # 4.2, asks it for "fname".
    if not ("open_clip_torch" in versions and "webdataset" in versions):
        return None
    if release_numbers(versions["open_clip_torch"]) >= _GROUPS_WITH_MARKS:
        return None
    if release_numbers(versions["webdataset"]) < _MARKS_ENDS:
        return None
    return Conflict(
        _pair(versions, "open_clip_torch", "webdataset"),
        "error",
        "OpenCLIP's grouping raises KeyError 'fname' at the end of the first shard, since webdataset 0.2.95 marks it",
        install_packages("webdataset<=0.2.86"),
    )


def _torchvision(versions: Mapping[str, str]) -> Conflict | None:
    # Up to torch 2.13 each torchvision 0.(15 + x) is built for torch 2.x alone. From 0.29 on it
    # asks for 2.14 or later.
    torch, vision = (
        release_numbers(versions.get("torch", "")),
        release_numbers(versions.get("torchvision", "")),
    )
    if len(torch) < 2 or len(vision) < 2 or torch[0] != 2 or vision[0] != 0:
        return None
    if vision[1] == torch[1] + 15 or (vision[1] >= 29 and torch[1] >= 14):
        return None
    return Conflict(
        _pair(versions, "torch", "torchvision"),
        "error",
        "torchvision is built for another torch: importing it fails with 'operator torchvision::nms does not exist'",
        install_packages(
            f"torchvision==0.{torch[1] + 15}.*" if torch[1] < 14 else "torchvision>=0.29"
        ),
    )


def _start_method(versions: Mapping[str, str]) -> Conflict | None:
    # Python 3.14 starts processes by forkserver on Linux, which has to pickle the pipeline.
    if "open_clip_torch" not in versions or release_numbers(versions.get("python", "")) < (3, 14):
        return None
    if release_numbers(versions["open_clip_torch"]) >= (4,):
        return None
    return Conflict(
        _pair(versions, "open_clip_torch", "python"),
        "error",
        "loader workers start by forkserver, which cannot pickle the lambda in OpenCLIP's pipeline; --workers 0 works",
        "use Python 3.13 or older",
    )


def _numpy(versions: Mapping[str, str]) -> Conflict | None:
    torch, numpy = (
        release_numbers(versions.get("torch", "")),
        release_numbers(versions.get("numpy", "")),
    )
    if not torch or not numpy or torch >= (2, 3) or numpy < (2,):
        return None
    return Conflict(
        _pair(versions, "torch", "numpy"),
        "error",
        "torch before 2.3 is built for NumPy 1: images cannot become tensors ('Numpy is not available')",
        install_packages("numpy<2"),
    )


def _img2dataset(versions: Mapping[str, str]) -> Conflict | None:
    webdataset = release_numbers(versions.get("webdataset", ""))
    if "img2dataset" not in versions or webdataset < (0, 3):
        return None
    return Conflict(
        _pair(versions, "img2dataset", "webdataset"),
        "warning",
        "img2dataset asks for webdataset below 0.3",
        "keep img2dataset in an environment of its own",
    )


def _pair(versions: Mapping[str, str], first: str, second: str) -> str:
    return f"{first} {versions[first]} with {second} {versions[second]}"
