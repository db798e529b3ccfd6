"""Sidecar files of one shard and of a whole set."""

import json
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from wdsflow.readers.energon import captioning
from wdsflow.records.unfinished import known_counts
from wdsflow.shards.certificate import Certificate, ShardFields, is_whole, load, plain_url, shared_folder, stored_folder
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import local_path

from .index_report import LENGTH, MANIFEST, NV_DATASET, NV_INFO, NV_SPLIT, SIZES, TIMM, WIDS, split_of
from .shard_pass import ShardContents, ShardFacts

_BLANK = re.compile(r"[ \t\n\v\f\r]")


class CannotIndex(ValueError):
    """A kind of index cannot describe this shard."""


def render(kind: str, name: str, facts: ShardFacts, contents: ShardContents) -> bytes:
    """Return the sidecar of one shard, of a kind with a file per shard. Raises CannotIndex if its reader could not read it."""
    if kind == "img2dataset":
        return _stats(facts)
    if facts.obstacle:
        raise CannotIndex(facts.obstacle)
    if not contents.samples:
        raise CannotIndex("it has no samples, and such an index cannot be empty")
    if kind == "dali":
        return "".join(_dali(contents)).encode("utf-8", "surrogateescape")
    if kind == "energon":
        offsets = [*(sample.start for sample in contents.samples), contents.end]
        return struct.pack(f"<{len(offsets)}Q", *offsets)
    return _webshart(name, facts, contents)


def _dali(contents: ShardContents) -> Iterator[str]:
    """Yield the lines of the index of ``wds2idx``, version 1.2."""
    yield f"v1.2 {len(contents.samples)}\n"
    for sample in contents.samples:
        for member in sample.members:
            if _BLANK.search(member.name):
                raise CannotIndex(f"DALI's index cannot hold names with white space: {member.name}")
        parts = (f"{member.field} {member.data} {member.size} {member.name}" for member in sample.members)
        yield f"{' '.join(parts)}\n"


def _webshart(name: str, facts: ShardFacts, contents: ShardContents) -> bytes:
    """Return the index of hfutils and webshart. webshart accepts "size" or its own "length", but not both."""
    files: dict[str, dict[str, object]] = {}
    for sample in contents.samples:
        paired = next((member for member in sample.members if member.field.lower() == "json"), None)
        for member in sample.members:
            about: dict[str, object] = {"offset": member.data, "size": member.size}
            if paired and member.field.lower() != "json":
                about |= {"json_path": paired.name, "json_offset": paired.data, "json_length": paired.size}
            files[member.name] = about
    head = json.dumps({"path": name, "filesize": facts.size})
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in files.items())
    return f'{head[:-1]}, "files": {{\n{rows}\n}}}}\n'.encode()


def _stats(facts: ShardFacts) -> bytes:
    stats = {
        "count": facts.samples,
        "successes": facts.samples,
        "failed_to_download": 0,
        "failed_to_resize": 0,
        "duration": 1.0,  # img2dataset divides by it
        "start_time": facts.changed - 1.0,
        "end_time": facts.changed,
        "status_dict": {"success": facts.samples},
    }
    return json.dumps(stats, indent=4).encode()


Shards = Mapping[str, ShardFacts]  # by base name, in order


def render_sizes(folder: Path, shards: Shards, kinds: Sequence[str], without: Collection[str] = ()) -> dict[str, bytes]:
    """Return ``sizes.json`` and ``__len__``; entries of other shards that still exist are kept."""
    known = {name: count for name, count in known_counts(folder).items() if name not in without}
    sizes = dict(sorted((known | {name: facts.samples for name, facts in shards.items()}).items()))
    files = {
        "sizes": (SIZES, json.dumps(sizes, indent=1).encode() + b"\n"),
        "len": (LENGTH, str(sum(sizes.values())).encode() + b"\n"),
    }
    return dict(files[kind] for kind in kinds if kind in files)


def render_set(shards: Shards, kinds: Sequence[str], folder: Path) -> dict[str, bytes]:
    """Return the files about all shards, by name, for a folder."""
    files: dict[str, bytes] = {}
    if "wids" in kinds:
        files[WIDS] = _json(_wids(shards, folder))
    if "timm" in kinds:
        files[TIMM] = _json(
            {"splits": {split: _timm(split, names, shards) for split, names in _splits(shards).items()}}
        )
    if "energon" in kinds:
        counts = {name: facts.by_energon for name, facts in shards.items()}
        files[NV_INFO] = _json({"energon_version": None, "shard_counts": counts})
    return files


def render_settings(shards: Shards) -> dict[str, bytes]:
    """Return Energon's files that users edit: they are written only if they do not exist."""
    splits = {{"validation": "val"}.get(split, split): names for split, names in _splits(shards).items()}
    parts = {"split_parts": {split: splits.get(split, []) for split in ("train", "val", "test")}, "exclude": []}
    return {NV_SPLIT: _yaml(parts), NV_DATASET: _yaml(_energon_dataset(shards))}


def listed_shards(folder: Path, kinds: Sequence[str]) -> dict[Path, list[str]]:
    """Return the shards that each existing file about all shards lists, by base name; unreadable files are left out."""
    readers: dict[str, tuple[str, Callable[[Path], Iterable[object]]]] = {
        "wids": (WIDS, lambda path: [row["url"] for row in json.loads(path.read_bytes())["shardlist"]]),
        "timm": (
            TIMM,
            lambda path: [
                name for each in json.loads(path.read_bytes())["splits"].values() for name in each["filenames"]
            ],
        ),
        "energon": (NV_INFO, lambda path: json.loads(path.read_bytes())["shard_counts"]),
        "checksums": (MANIFEST, lambda path: load(path).shards),
    }
    found = {}
    for kind, (name, names_in) in readers.items():
        if kind in kinds and (folder / name).is_file():
            with suppress(OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
                found[folder / name] = [os.path.basename(str(each)) for each in names_in(folder / name)]
    return found


def manifest_of(shards: Sequence[ShardFacts], file: Path) -> Certificate:
    """Return the manifest of hashed shards.

    Args:
        shards: at least one.
        file: path of the manifest. If its folder contains the shards, or theirs contains it, both can be moved together.
    """
    urls = [plain_url(facts.url) for facts in shards]
    folder = shared_folder(urls)
    named = {url.removeprefix(folder): facts for url, facts in zip(urls, shards, strict=True)}
    identities = {name: facts.identity for name, facts in named.items() if facts.identity is not None}
    contents = {name: ShardFields(facts.samples, facts.fields) for name, facts in named.items()}
    samples, size = (sum(getattr(facts, what) for facts in shards) for what in ("samples", "size"))
    about = {"samples": samples, "bytes": size}
    return Certificate(stored_folder(folder, str(file)), identities, about, is_whole(folder, identities), contents)


def _wids(shards: Shards, folder: Path) -> dict[str, object]:
    """Return the index of wids, which resolves a bare file name relative to the index."""
    rows = []
    for name, facts in shards.items():
        path, url = local_path(facts.url), plain_url(facts.url)
        if path is not None and os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder):
            url = name
        elif path is not None:
            url = f"file://{url}"  # wids passes plain paths to a shell, which splits them at blanks
        rows.append({"url": url, "nsamples": facts.by_wids, "filesize": facts.size})
    return {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": rows}


def _timm(split: str, names: Sequence[str], shards: Shards) -> dict[str, object]:
    lengths = [shards[name].samples for name in names]
    about = {"name": split, "num_samples": sum(lengths), "filenames": names, "shard_lengths": lengths}
    return {**about, "alt_label": ""}


def _energon_dataset(shards: Shards) -> Mapping[str, object]:
    """Return Energon's settings for the samples: images with captions, or no conversion."""
    fields = set().union(*(facts.fields for facts in shards.values()))
    images = [name for name in IMAGE_FIELDS if name in fields]
    if not images or "txt" not in fields:
        return {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    return captioning(images, ["txt"])


def _splits(shards: Shards) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for name in shards:
        splits.setdefault(split_of(name), []).append(name)
    return splits


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _yaml(value: object) -> bytes:
    return yaml.safe_dump(value, sort_keys=False).encode()
