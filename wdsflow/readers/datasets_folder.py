"""The files that Hugging Face ``load_dataset(FOLDER)`` loads, which may not be the shards.

It passes over hidden files and folders, and folders that begin with two underscores. It divides the
others into splits by their names, and takes the format of each split from the most frequent
extension, where parquet, json and csv win a draw against tar. With
``load_dataset("webdataset", data_dir=FOLDER)`` every visible file is read as a tar.

Source: datasets 5.2, data_files.py, load.py, packaged_modules/__init__.py.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_IGNORED = frozenset(
    (
        "README.md",
        "config.json",
        "dataset_info.json",
        "dataset_infos.json",
        "dummy_data.zip",
        "dataset_dict.json",
    )
)
# They describe data and are not counted with it.
_METADATA = frozenset(
    (
        "instruction.md",
        "latest_version_hint.json",
        "metadata.csv",
        "metadata.jsonl",
        "metadata.parquet",
        "task.toml",
    )
)
# The later ones win a draw.
_FAVORITES = (".csv", ".json", ".jsonl", ".arrow", ".vortex", ".lance", ".parquet")
_TABLES = frozenset(
    f".{name}"
    for name in (
        "csv tsv json jsonl ndjson parquet geoparquet gpq arrow txt conll conllu tar xml hdf5 h5 eval toml md lance tsfile "
        "vortex fa fasta fna ffn faa frn afa gb genbank gbk fq fastq cif mmcif zip"
    ).split()
)
# Only these are also known in capital letters.
_MEDIA = frozenset(
    f".{name}"
    for name in (
        "blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib png apng jp2 j2k jpc jpf jpx j2c icns "
        "ico im iim tif tiff jfif jpe jpg jpeg mpg mpeg msp pcd pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras tga icb vda vst "
        "webp wmf emf xbm xpm aiff au avr caf flac htk svx mat4 mat5 mpc2k ogg paf pvf raw rf64 sd2 sds ircam voc w64 wav "
        "nist wavex wve xi mp3 opus 3gp 3g2 avi asf flv mp4 mov m4v mkv webm f4v wmv wma ogm mxf nut glb gltf ply stl pdf "
        "nii pdb ent"
    ).split()
)
_FORMATS = _TABLES | _MEDIA
# Files of these are loaded with others, but never decide the format.
_PARTS = frozenset((".idx", ".manifest", ".txn"))

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_BREAK = "[-._ 0-9]"
_FOLDER_SPLITS = {
    split: re.compile(rf"(.*{_BREAK})?({'|'.join(words)})({_BREAK}.*)?", re.DOTALL)
    for split, words in _SPLITS.items()
}
_FILE_SPLITS = {
    split: re.compile(rf"(.*{_BREAK})?({'|'.join(words)}){_BREAK}.*", re.DOTALL)
    for split, words in _SPLITS.items()
}
_NUMBERED = re.compile(r"data/([^/]*)-\d{5}-of-\d{5}[^/]*\.[^/]*", re.DOTALL)


def visible_files(folder: Path) -> list[str]:
    """Return the paths in a folder, relative to it and sorted, that are not passed over."""
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        below = os.path.relpath(place, folder)
        prefix = "" if below == "." else f"{below}/"
        names += [
            f"{prefix}{name}" for name in files if not name.startswith(".") and name not in _IGNORED
        ]
    return sorted(names)


class Split(NamedTuple):
    """Files that are loaded together.

    ``extension`` decides their format; "" if none of them has a known one.
    """

    extension: str
    files: list[str]


def chosen_splits(names: Sequence[str]) -> dict[str, Split]:
    """Return the splits that ``load_dataset(FOLDER)`` makes of these files.

    Files that belong to no split are left out.
    """
    return {name: Split(_format(files), files) for name, files in _by_split(names).items()}


def names_data_files(folder: Path) -> bool:
    """Return whether the README of a folder names the files to load.

    If so, only these files are loaded.
    """
    try:
        text = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    parts = text.split("---", 2)
    return len(parts) == 3 and not parts[0].strip() and "data_files:" in parts[1]


def _by_split(names: Sequence[str]) -> dict[str, list[str]]:
    """Divide files into splits by the first rule that applies to any of them."""
    numbered: dict[str, list[str]] = defaultdict(list)
    by_folder: dict[str, list[str]] = defaultdict(list)
    by_name: dict[str, list[str]] = defaultdict(list)
    for name in names:
        *folders, last = name.split("/")
        if match := _NUMBERED.fullmatch(name):
            numbered[match[1]].append(name)
        for split in _SPLITS:
            if any(_FOLDER_SPLITS[split].fullmatch(folder) for folder in folders):
                by_folder[split].append(name)
            if _FILE_SPLITS[split].fullmatch(last):
                by_name[split].append(name)
    return numbered or by_folder or by_name or {"train": list(names)}


def _format(names: list[str]) -> str:
    """Return the extension that decides the format of these files."""
    counts: Counter[tuple[bool, str]] = Counter()
    for name in names:
        last = name.rpartition("/")[2]
        endings = [f".{ending}" for ending in last.split(".")[1:]]
        if not any(_is_allowed(ending) for ending in endings):
            continue
        for ending in endings:
            counts[last not in _METADATA, ending.lower()] += 1
    ranked = sorted(
        counts,
        key=lambda entry: (entry[0], counts[entry], _favor(entry[1]), entry[1]),
        reverse=True,
    )
    return next((ending for _, ending in ranked if ending in _FORMATS), "")


def _favor(ending: str) -> int:
    return _FAVORITES.index(ending) if ending in _FAVORITES else -1


def _is_allowed(ending: str) -> bool:
    """Return whether a file with this extension is looked at."""
    in_capitals = ending.isupper() and ending.lower() in _MEDIA
    return in_capitals or ending in _FORMATS or ending in _PARTS
