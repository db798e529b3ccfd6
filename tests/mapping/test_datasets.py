"""bounded_map over a Dataset gives what Dataset.map gives."""

import json
import os
import pickle
import signal
from pathlib import Path

import pytest

import wdsflow
from tests.mapping.equal import assert_same
from wdsflow.mapping import MappingError
from wdsflow.mapping.dataset_work import DatasetWork
from wdsflow.mapping.messages import RowBatch

datasets = pytest.importorskip("datasets")
MEMORY = "3GiB"  # this process has torch and more


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()


def pictures(count):
    from PIL import Image

    features = datasets.Features(
        {
            "id": datasets.Value("int32"),
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "image": datasets.Image(),
        }
    )
    columns = {
        "id": list(range(count)),
        "text": [None if number % 7 == 0 else f"row {number}" for number in range(count)],
        "label": [number % 2 for number in range(count)],
        "image": [Image.new("RGB", (number + 1, 5), (number, 0, 0)) for number in range(count)],
    }
    return datasets.Dataset.from_dict(columns, features=features)


def test_the_result_is_that_of_map_in_types_format_and_bytes():
    import numpy

    dataset = pictures(90)

    def fn(batch, indices):
        batch["text"] = [text and text.upper() for text in batch["text"]]
        batch["pixels"] = [
            numpy.asarray(image, dtype=numpy.float32) / 255 for image in batch["image"]
        ]
        batch["index"] = indices
        return batch

    mine = wdsflow.bounded_map(dataset, fn, MEMORY, 2, with_indices=True)
    assert_same(mine, dataset.map(fn, batched=True, with_indices=True))
    assert mine.cache_files  # in files, not in memory
    assert mine[3]["image"].size == (4, 5)


@pytest.mark.deep
def test_slices_formats_and_rows_that_become_several_are_those_of_map():
    dataset = pictures(60).select(range(59, 0, -2)).with_format("numpy", columns=["id", "label"])

    def fn(batch):
        return {"n": [number for number in batch["id"].tolist() for _ in range(number % 3)]}

    gone = dataset.column_names
    mine = wdsflow.bounded_map(dataset, fn, MEMORY, 1, remove_columns=gone)
    assert_same(mine, dataset.map(fn, batched=True, remove_columns=gone))


@pytest.mark.deep
def test_a_column_of_nulls_at_first_gets_the_type_of_what_comes_later():
    dataset = datasets.Dataset.from_dict({"id": list(range(300))})

    def fn(batch):
        return {"late": [None if number < 200 else number + 0.5 for number in batch["id"]]}

    mine = wdsflow.bounded_map(dataset, fn, MEMORY, 1, batch_size=100)
    assert_same(mine, dataset.map(fn, batched=True))


@pytest.mark.deep
def test_a_function_that_returns_none_leaves_the_dataset_as_it_is(tmp_path):
    dataset = datasets.Dataset.from_dict({"id": list(range(5))})
    assert wdsflow.bounded_map(dataset, lambda batch: None, MEMORY, 1) is dataset


def test_an_empty_dataset_is_mapped_as_by_map(tmp_path):
    empty = datasets.Dataset.from_dict({"id": list(range(5)), "b": ["x"] * 5}).select([])
    assert wdsflow.bounded_map(empty, lambda batch: 1 / 0, MEMORY, 1) is empty
    mine = wdsflow.bounded_map(empty, lambda batch: 1 / 0, MEMORY, 1, remove_columns="b")
    assert_same(mine, empty.map(lambda batch: 1 / 0, batched=True, remove_columns="b"))


def test_a_folder_that_holds_something_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / "note").write_text("mine")
    dataset = datasets.Dataset.from_dict({"id": list(range(5))})
    with pytest.raises(ValueError, match=r" is not empty$"):
        wdsflow.bounded_map(dataset, lambda batch: batch, MEMORY, 1, folder=tmp_path)
    assert (tmp_path / "note").read_text() == "mine"


def test_a_column_to_remove_that_is_not_there_is_no_rows_fault():
    dataset = datasets.Dataset.from_dict({"id": list(range(5))})
    with pytest.raises(ValueError, match=r"no columns \['x'\] to remove"):
        wdsflow.bounded_map(dataset, lambda batch: batch, MEMORY, 1, "drop", remove_columns=["x"])


@pytest.mark.deep
def test_transforms_formats_without_a_type_and_tables_are_those_of_map():
    plus = 100
    numbers = datasets.Dataset.from_dict({"id": list(range(20)), "b": list(range(20))})
    own = numbers.with_transform(lambda batch: {"id": [number + plus for number in batch["id"]]})
    few = numbers.with_format(None, columns=["id"])

    def fn(batch):
        return {"n": [number * 2 for number in batch["id"]]}

    for dataset in (own, few):
        assert_same(wdsflow.bounded_map(dataset, fn, MEMORY, 1), dataset.map(fn, batched=True))

    def table(given):
        return given.append_column("c", given.column("b"))

    dataset = numbers.with_format("arrow")
    assert_same(wdsflow.bounded_map(dataset, table, MEMORY, 1), dataset.map(table, batched=True))


@pytest.mark.deep
def test_a_dataset_that_lies_in_files_and_in_memory_is_not_copied_to_each_worker(tmp_path):
    datasets.Dataset.from_dict({"id": list(range(300_000))}).save_to_disk(tmp_path / "saved")
    saved = datasets.load_from_disk(tmp_path / "saved")
    dataset = (
        saved.add_column("more", [f"text {number}" for number in range(300_000)])
        .shuffle(seed=1)
        .select(range(3000))
    )

    def fn(batch):
        import gc

        from datasets.table import InMemoryTable

        kept = sum(each.nbytes for each in gc.get_objects() if type(each) is InMemoryTable)
        return {
            "text": [
                f"{number} {text}" for number, text in zip(batch["id"], batch["more"], strict=True)
            ],
            "kept": [kept < 1 << 20] * len(batch["id"]),
        }

    mine = wdsflow.bounded_map(dataset, fn, MEMORY, 1, folder=tmp_path / "out")
    assert all(mine["kept"])
    assert mine["text"][:] == [f"{row['id']} text {row['id']}" for row in dataset]
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".arrow"}


@pytest.mark.deep
def test_rows_that_kill_or_fail_are_quarantined_and_the_others_mapped(tmp_path):
    dataset = datasets.Dataset.from_dict({"id": list(range(100))})

    def fn(batch):
        if 61 in batch["id"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"inverse": [1 / (number - 17) for number in batch["id"]]}

    mine, quarantined = wdsflow.bounded_map(
        dataset, fn, MEMORY, 1, "quarantine", batch_size=8, folder=tmp_path / "out"
    )
    assert [row.index for row in quarantined] == [17, 61]
    assert "SIGKILL" in quarantined[1].error
    assert mine["id"][:] == [number for number in range(100) if number not in {17, 61}]
    assert {os.path.dirname(file["filename"]) for file in mine.cache_files} == {
        str(tmp_path / "out")
    }


@pytest.mark.deep
def test_an_error_stops_the_run_and_leaves_no_file(tmp_path):
    dataset = datasets.Dataset.from_dict({"id": list(range(10))})
    with pytest.raises(MappingError, match="row 0: TypeError"):
        wdsflow.bounded_map(dataset, lambda batch: [1], MEMORY, 1, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "x").write_text(json.dumps("mine"))
    with pytest.raises(ValueError, match="not empty"):
        wdsflow.bounded_map(dataset, dict, MEMORY, folder=tmp_path)


# datasets leaves its event loop open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_coroutine_function_gets_the_numbers_of_the_rows_in_the_dataset(tmp_path: Path) -> None:
    async def fn(
        batch: dict[str, list[int]], indices: list[int], added: int
    ) -> dict[str, list[int]]:
        return {"index": indices, "sum": [number + added for number in batch["id"]]}

    dataset = datasets.Dataset.from_dict({"id": [10, 11, 12, 13, 14]})
    work = DatasetWork(fn, with_indices=True, fn_kwargs={"added": 5}, dataset=pickle.dumps(dataset))
    work.begin()

    rows = work.map(RowBatch(2, 4), str(tmp_path / "rows.arrow"))

    assert rows == 2
    results = datasets.Dataset.from_file(str(tmp_path / "rows.arrow"))
    assert results.to_dict() == {"id": [12, 13], "index": [2, 3], "sum": [17, 18]}
