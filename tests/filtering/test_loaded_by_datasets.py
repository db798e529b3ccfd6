"""The folder of a run in Hugging Face ``load_dataset``.

The shards are loaded, not the records of the run.
"""

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("datasets")

import datasets

from tests.filtering.commands import run
from tests.filtering.shards import write_shards
from wdsflow.readers.datasets_folder import chosen_splits, names_data_files, visible_files
from wdsflow.records.load_dataset import load_call

WHERE = ("--where", "min_side >= 200 and caption_words >= 2", "--jobs", 0)


def loaded(call: str, tmp_path: Path) -> int:
    """Return the rows that a call loads, in all splits."""
    call = call.replace(")", f", cache_dir={str(tmp_path / 'cache')!r})")
    found = eval(call, {"load_dataset": datasets.load_dataset})
    return sum(len(rows) for rows in found.values())


@pytest.mark.parametrize("out", ["kept", "with [brackets] in it"])
def test_the_printed_call_loads_the_kept_samples(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), shards=2, samples=8)
    done = run("filter", "in", "-o", out, *WHERE)
    (kept,) = re.findall(r"(\d+)  kept", done.out)
    (call,) = re.findall(r"^for Hugging Face datasets: (.*)$", done.out, re.MULTILINE)
    assert 16 > loaded(call, tmp_path) == int(kept) > 0
    # Of the records of the run, load_dataset would take the Parquet files for data.
    assert list(Path(out).rglob("*.parquet"))
    assert [name for name in visible_files(Path(out)) if name.endswith(".parquet")] == []


@pytest.mark.deep
def test_the_folder_itself_gives_samples_and_no_rows_of_ledgers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), shards=3, samples=8)
    done = run("filter", "in", "-o", "kept", *WHERE)
    (kept,) = re.findall(r"(\d+)  kept", done.out)
    assert list(Path("kept").rglob("*.parquet"))
    assert loaded('load_dataset("kept")', tmp_path) == int(kept)


@pytest.mark.deep
def test_validate_knows_a_folder_that_would_not_load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), shards=2, samples=8)
    assert "P333" not in run("validate", "in", "--for", "datasets").out
    Path("in/sizes.json").write_text('{"00000.tar": 8, "00001.tar": 8}')
    note = run("validate", "in", "--for", "datasets").out
    assert re.search(r'note +P333.*data_dir="in"\) ends at sizes.json', note, re.DOTALL)
    with pytest.raises(datasets.exceptions.DatasetGenerationError):
        loaded('load_dataset("webdataset", data_dir="in")', tmp_path)
    Path("in/00001.tar").unlink()
    warning = run("validate", "in", "--for", "datasets").out
    assert re.search(r'warning +P333.*load_dataset\("in"\) loads sizes.json', warning, re.DOTALL)
    assert loaded('load_dataset("in")', tmp_path) == 1  # the row of sizes.json


@pytest.mark.deep
def test_shards_in_no_split_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), shards=2, samples=8)
    Path("in/00000.tar").rename("in/train-0.tar")
    shown = run("validate", "in", "--for", "datasets").out
    assert "leaves out 1 shard, whose names have no split: 00001.tar" in shown
    assert loaded('load_dataset("in")', tmp_path) * 2 == loaded(
        load_call("in", ["0.tar"]), tmp_path
    )
    Path("in/README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: '*.tar'\n---\n"
    )
    assert "P333" not in run("validate", "in", "--for", "datasets").out


FOLDERS = [
    "",
    "",
    "",
    "train",
    "val",
    "a-test",
    "x",
    "latest",
    "data",
    ".h",
    "__s__",
    "eval 1/deep",
    "mytrain",
]
STEMS = [
    "00000",
    "1",
    "train-0",
    "x_val_1",
    "sizes",
    "__len__",
    "data-00000-of-00002",
    "test",
    "shard.test.1",
    ".hid",
]
STEMS += ["metadata", "README", "config", "a.train", "validation"]
ENDINGS = [
    ".tar",
    ".tar",
    ".tar",
    ".json",
    ".tar.gz",
    ".csv",
    ".parquet",
    ".idx",
    "",
    ".txt",
    ".JPG",
    ".TAR",
    ".jsonl",
]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 20))]
)
def test_splits_and_formats_are_those_of_datasets(tmp_path, seed):
    from datasets.data_files import DataFilesDict, get_data_patterns
    from datasets.load import infer_module_for_data_files_list
    from datasets.packaged_modules import _ALL_ALLOWED_EXTENSIONS, _EXTENSION_TO_MODULE

    chance = random.Random(seed)
    for number in range(40):
        folder = tmp_path / str(number)
        for _ in range(chance.randint(1, 6)):
            path = folder / chance.choice(FOLDERS) / (chance.choice(STEMS) + chance.choice(ENDINGS))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        splits = chosen_splits(visible_files(folder))
        found = {
            name: split.extension and _EXTENSION_TO_MODULE[split.extension][0]
            for name, split in splits.items()
        }
        try:
            patterns = get_data_patterns(str(folder))
            files = DataFilesDict.from_patterns(
                patterns, str(folder), allowed_extensions=_ALL_ALLOWED_EXTENSIONS
            )
        except FileNotFoundError:
            assert not any(found.values())
            continue
        assert found == {
            str(name): infer_module_for_data_files_list(some)[0] or ""
            for name, some in files.items()
        }


@pytest.mark.parametrize(
    ("readme", "names"),
    [
        (None, False),
        ("---\nconfigs:\n- data_files: '*.tar'\n---\n# a set\n", True),
        ("---\nlicense: mit\n---\ndata_files: none\n", False),
        ("a set\n---\ndata_files: '*.tar'\n---\n", False),
        ("---\ndata_files: '*.tar'\n", False),
        (b"---\ndata_files: \xff\n---\n", False),
    ],
)
def test_a_page_names_files_in_its_head(tmp_path, readme, names):
    if readme is not None:
        data = readme if isinstance(readme, bytes) else readme.encode()
        (tmp_path / "README.md").write_bytes(data)
    assert names_data_files(tmp_path) is names


def test_numbered_files_in_the_folder_data_decide_the_splits():
    numbered = [
        "data/train-00000-of-00002.tar",
        "data/train-00001-of-00002.tar",
        "data/x-00000-of-00001.tar",
    ]
    found = chosen_splits([*numbered, "test/0.tar", "validation-0.tar"])
    assert {name: split.files for name, split in found.items()} == {
        "train": numbered[:2],
        "x": numbered[2:],
    }
    assert {split.extension for split in found.values()} == {".tar"}
