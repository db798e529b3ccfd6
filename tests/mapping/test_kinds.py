"""Types that differ between the batches of a Dataset come together as in Dataset.map, or it is said at once."""

import logging
import random

import pytest

import wdsflow
from tests.mapping.equal import assert_same
from wdsflow.mapping.column_kinds import KindError

datasets = pytest.importorskip("datasets")

MEMORY = "3GiB"  # this process has torch and more
NUMBERS = datasets.Dataset.from_dict({"id": list(range(60))})


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()


def mapped_alike(fn, dataset=NUMBERS, **more):
    mine = wdsflow.bounded_map(dataset, fn, MEMORY, 1, **more)
    return assert_same(mine, dataset.map(fn, batched=True, **more))


@pytest.mark.deep
def test_batches_that_give_no_row_say_nothing_of_types():
    def some(batch):
        return {"n": [number / 2 for number in batch["id"] if number % 9 == 5]}

    assert mapped_alike(some, remove_columns=["id"])["n"][:2] == [2.5, 7.0]
    assert len(mapped_alike(lambda batch: {"n": []}, remove_columns=["id"])) == 0


def test_nulls_empty_lists_and_pictures_that_come_late_get_their_types():
    def fn(batch):
        from PIL import Image

        late = [number > 30 for number in batch["id"]]
        return {
            "picture": [Image.new("RGB", (3, 4)) if there else None for there in late],
            "pictures": [[Image.new("L", (2, 2))] * 2 if there else [] for there in late],
            "deep": [[[str(there)]] if there else [None] for there in late],
            "struct": [{"a": 1.5, "b": []} if there else {"a": None, "b": [3]} for there in late],
        }

    assert mapped_alike(fn)[40]["picture"].size == (3, 4)


@pytest.mark.deep
@pytest.mark.skipif(not hasattr(datasets, "Json"), reason="datasets does not know Json")
def test_values_of_several_types_become_json(caplog):
    kinds = [7, "seven", 7.25, None, True, [1, 2], {"a": 7}]

    def fn(batch):
        values = [kinds[number % 7 if number > 20 else 0] for number in batch["id"]]
        calls = [{"city": "Bern"} if number < 20 else {"count": number} for number in batch["id"]]
        return {"value": values, "messages": [[{"role": "tool", "given": call}] for call in calls]}

    with caplog.at_level(logging.WARNING, "wdsflow.mapping"):
        mine = wdsflow.bounded_map(NUMBERS, fn, MEMORY, 1)
    theirs = NUMBERS.map(fn, batched=True)
    assert mine.features == theirs.features
    assert mine["messages"][:] == theirs["messages"][:]
    assert mine["value"][:] == theirs["value"][:] == [kinds[n % 7 if n > 20 else 0] for n in range(60)]
    assert "column 'value' becomes Json" in caplog.text


@pytest.mark.deep
def test_what_does_not_go_together_is_said_when_it_comes_and_not_at_the_end(tmp_path):
    def kinds(batch):
        (tmp_path / f"seen-{max(batch['id'])}").touch()
        return {"at": [number if number > 6 else b"bytes" for number in batch["id"]]}

    def columns(batch):
        return {"a" if number < 9 else "b": [number] * len(batch["id"]) for number in batch["id"][:1]}

    def sometimes(batch):
        return {"n": batch["id"]} if batch["id"][0] > 9 else None

    many = datasets.Dataset.from_dict({"id": list(range(20_000))})
    for fn, told in [
        (kinds, "rows 7 to 10: column 'at'"),
        (columns, "rows 15 to 30: .* others lack: a, b"),
        (sometimes, "rows 15 to 30: .* None for others"),
    ]:
        with pytest.raises(KindError, match=told):
            wdsflow.bounded_map(many, fn, MEMORY, 1, batch_size=4 if fn is kinds else 16)
    assert max(int(path.name[5:]) for path in tmp_path.glob("seen-*")) < 1000
    assert not list(tmp_path.glob("wdsflow-map-*"))


@pytest.mark.deep
def test_types_that_take_turns_do_not_make_a_file_each():
    def fn(batch):
        return {"n": [None if batch["id"][0] % 4 < 2 else number / 2 for number in batch["id"]]}

    mine = wdsflow.bounded_map(NUMBERS, fn, MEMORY, 1, batch_size=2)
    assert len(mine.cache_files) <= 2
    assert mine["n"][:8] == [None, None, None, 1.5, 2.0, None, None, 3.5]


@pytest.mark.deep
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 6))])
def test_any_types_come_out_as_with_map(seed):
    values = {
        "whole": lambda rng: rng.randrange(9),
        "number": lambda rng: rng.choice([1, 2.5]),
        "text": lambda rng: rng.choice(["", "a", "\u00e4"]),
        "flag": lambda rng: rng.random() < 0.5,
        "list": lambda rng: [rng.randrange(3) for _ in range(rng.randrange(3))],
        "deep": lambda rng: {"a": [rng.random()] * rng.randrange(2), "b": rng.choice([None, "x"])},
        "bytes": lambda rng: rng.randbytes(2),
    }
    rng = random.Random(seed)
    names = rng.sample(sorted(values), 4)
    nothing, gone = rng.random(), rng.sample(["id", "kept"], rng.randrange(3))
    dataset = datasets.Dataset.from_dict({"id": list(range(70)), "kept": [[n] * (n % 3) for n in range(70)]})
    dataset = dataset.shuffle(seed=seed).select(range(3, 70)) if seed % 2 else dataset
    repeats = bool(gone) and len(gone) == 2

    def fn(batch, indices):
        found = {name: [] for name in names}
        for index, _ in enumerate(indices):
            own = random.Random(seed * 1000 + indices[index])
            for name in names:
                made = None if own.random() < nothing else values[name](own)
                found[name] += [made] * (own.randrange(3) if repeats and name == names[0] else 1)
        if repeats:
            found = {names[0]: found[names[0]]}
        return found

    mapped_alike(fn, dataset, with_indices=True, remove_columns=gone)
