"""The kinds of sidecars, and what their files are called."""

import os
import re
from collections.abc import Iterable

SIZES, LENGTH, WIDS, TIMM = "sizes.json", "__len__", "shardindex.json", "_info.json"
NV_META = ".nv-meta"  # a folder
NV_INFO, NV_SPLIT, NV_DATASET = f"{NV_META}/.info.json", f"{NV_META}/split.yaml", f"{NV_META}/dataset.yaml"
NV_SQLITE, NV_UUID = f"{NV_META}/index.sqlite", f"{NV_META}/index.uuid"
MANIFEST = "checksums.json"

KINDS = ("sizes", "len", "wids", "dali", "energon", "webshart", "timm", "img2dataset", "checksums")
DEFAULT = ("sizes", "len")
OF_OFFSETS = frozenset(("dali", "energon", "webshart"))  # name places in the tar as it is stored

_HELD_OUT = re.compile(r"(?:^|[-_.])(val|valid|validation|test)(?:[-_.]|$)", re.IGNORECASE)


def shard_files(name: str, kinds: Iterable[str]) -> dict[str, str]:
    """Return the sidecar of a shard for each kind that has one, by the names that their readers look for.

    >>> shard_files("a.b-000.tar", ["sizes", "dali", "energon", "webshart", "img2dataset"])
    {'dali': 'a.b-000.idx', 'energon': 'a.b-000.tar.idx', 'webshart': 'a.b-000.json', 'img2dataset': 'a_stats.json'}
    """
    first, stem = name.partition(".")[0], os.path.splitext(name)[0]
    names = {
        "dali": f"{stem}.idx",
        "energon": f"{stem}.tar.idx",
        "webshart": f"{stem}.json",
        "img2dataset": f"{first}_stats.json",
    }
    return {kind: names[kind] for kind in kinds if kind in names}


def split_of(name: str) -> str:
    """Return the split that a shard belongs to by its name.

    >>> split_of("imagenet-train-0001.tar"), split_of("cc3m-val-01.tar"), split_of("test_0.tar"), split_of("contest-0.tar")
    ('train', 'validation', 'test', 'train')
    """
    found = _HELD_OUT.search(name)
    if found is None:
        return "train"
    return "test" if found[1].lower() == "test" else "validation"
