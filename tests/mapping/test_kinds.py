"""Types that differ between batches of a Dataset are merged as in Dataset.map.

If that is impossible, the error comes immediately.
"""

import logging
import random

import pytest

import wdsflow
from tests.mapping.equal import assert_same
from wdsflow.mapping import arrow_parts
from wdsflow.mapping.arrow_parts import ArrowParts
from wdsflow.mapping.column_kinds import KindError, holds_json, unified_features, widen_batch
from wdsflow.mapping.result_dataset import to_dataset

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
    assert (
        mine["value"][:] == theirs["value"][:] == [kinds[n % 7 if n > 20 else 0] for n in range(60)]
    )
    assert "column 'value' becomes Json" in caplog.text


@pytest.mark.deep
def test_what_does_not_go_together_is_said_when_it_comes_and_not_at_the_end(tmp_path):
    def kinds(batch):
        (tmp_path / f"seen-{max(batch['id'])}").touch()
        return {"at": [number if number > 6 else b"bytes" for number in batch["id"]]}

    def columns(batch):
        return {
            "a" if number < 9 else "b": [number] * len(batch["id"]) for number in batch["id"][:1]
        }

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
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 6))]
)
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
    dataset = datasets.Dataset.from_dict(
        {"id": list(range(70)), "kept": [[n] * (n % 3) for n in range(70)]}
    )
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


NEEDS_JSON = pytest.mark.skipif(not hasattr(datasets, "Json"), reason="datasets does not know Json")
V, L = datasets.Value, datasets.List
INT, FLOAT, TEXT, NULL, BYTES = V("int64"), V("float64"), V("string"), V("null"), V("binary")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (INT, INT, INT),
        (NULL, TEXT, TEXT),
        (TEXT, NULL, TEXT),
        (INT, FLOAT, FLOAT),
        (V("int32"), INT, INT),
        (L(NULL), L(INT), L(INT)),
        (L(INT, length=2), L(FLOAT, length=2), L(FLOAT, length=2)),
        (L(INT, length=2), L(FLOAT, length=3), L(FLOAT)),
        (datasets.LargeList(V("int32")), datasets.LargeList(INT), datasets.LargeList(INT)),
        ({"a": INT, "b": TEXT}, {"b": NULL, "a": FLOAT}, {"a": FLOAT, "b": TEXT}),
        (BYTES, TEXT, BYTES),
        ({"a": BYTES}, {"b": INT}, {"a": BYTES, "b": INT}),
        (datasets.Image(), NULL, datasets.Image()),
        (datasets.ClassLabel(names=["x"]), V("int32"), datasets.ClassLabel(names=["x"])),
        ([INT], [FLOAT], [FLOAT]),
        pytest.param(INT, TEXT, "json", marks=NEEDS_JSON),
        pytest.param(V("bool"), INT, "json", marks=NEEDS_JSON),
        pytest.param(L(INT), INT, "json", marks=NEEDS_JSON),
        pytest.param({"a": INT}, {"b": INT}, "json", marks=NEEDS_JSON),
        pytest.param({"a": L(INT)}, {"b": L(INT)}, "json", marks=NEEDS_JSON),
        pytest.param("json", {"a": INT}, "json", marks=NEEDS_JSON),
        pytest.param(TEXT, "json", "json", marks=NEEDS_JSON),
        pytest.param("json", "json", "json", marks=NEEDS_JSON),
        pytest.param(L({"a": INT}), L({"b": INT}), "json list", marks=NEEDS_JSON),
        pytest.param(BYTES, INT, None, marks=NEEDS_JSON),
        pytest.param({"a": BYTES}, INT, None, marks=NEEDS_JSON),
        pytest.param(L(BYTES), INT, None, marks=NEEDS_JSON),
    ],
)
def test_two_types_have_the_narrowest_that_holds_both(one, other, both):
    one, other, both = (
        {"json": datasets.Json, "json list": lambda: L(datasets.Json())}[each]() if isinstance(each, str) else each
        for each in (one, other, both)
    )  # fmt: skip
    rows = [{"first": INT, "c": one}, {"c": other, "first": INT}]
    if both is None:
        with pytest.raises(
            KindError, match=r"^column 'c' has types that do not go together: give features= \("
        ):
            unified_features(rows)
        return
    found = unified_features(rows)
    assert found == datasets.Features({"first": INT, "c": both})
    assert list(found) == ["first", "c"]
    assert holds_json(found["c"]) == ("Json" in str(both))


def test_columns_that_only_some_rows_have_are_named():
    with pytest.raises(KindError, match=r"^fn gave some rows columns that others lack: b, c$"):
        unified_features([{"a": INT, "b": INT}, {"a": INT, "c": INT}])


@NEEDS_JSON
def test_values_are_written_as_json_where_some_rows_need_it_and_left_where_they_are():
    rows = {
        "plain": [1, 2],
        "text": ["a", None],
        "deep": [[{"x": "p", "n": 1}], []],
        "struct": [{"x": [1], "n": 5}, {"x": None, "n": 6}],
        "done": ['{"a": 1}', "7"],
    }
    data = datasets.Dataset.from_dict(
        {name: values for name, values in rows.items() if name != "done"}
    )
    json = datasets.Json()
    kinds = datasets.Features({**data.features, "done": json})
    table = data.data.table.append_column("done", [rows["done"]])
    wanted = datasets.Features(
        {
            "plain": FLOAT,
            "text": json,
            "deep": L({"x": json, "n": V("int32")}),
            "struct": {"x": L(json), "n": INT},
            "done": json,
        }
    )
    found = widen_batch(table.combine_chunks().to_batches()[0], kinds, wanted)
    assert found.schema == wanted.arrow_schema
    assert found.to_pydict() == {
        "plain": [1.0, 2.0],
        "text": ['"a"', None],
        "deep": [[{"x": '"p"', "n": 1}], []],
        "struct": [{"x": ["1"], "n": 5}, {"x": None, "n": 6}],
        "done": ['{"a": 1}', "7"],
    }


def test_small_files_are_put_together_and_one_without_rows_says_nothing_of_types(
    tmp_path, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING)

    def file(name, **columns):
        features = datasets.Features(columns.pop("kinds")) if "kinds" in columns else None
        path = tmp_path / f"{name}.in"
        with datasets.arrow_writer.ArrowWriter(path=str(path), features=features) as writer:
            writer.write_table(datasets.Dataset.from_dict(columns, features=features).data.table)
        return path

    folder = tmp_path / "parts"
    folder.mkdir()
    parts = ArrowParts(folder)
    parts.add(file("none", n=[], kinds={"n": TEXT}), 0)
    parts.add(file("none2", n=[], kinds={"n": TEXT}), 0)
    parts.add(file("ints", n=[1, 2]), 2)
    parts.add(file("ints2", n=[3]), 1)
    parts.add(file("floats", n=[0.5]), 1)
    parts.finish()
    assert [path.name for path in parts.files] == ["rows-000000.arrow", "rows-000001.arrow"]
    assert sorted(folder.iterdir()) == parts.files
    like = datasets.Dataset.from_dict({"n": [0]})
    found = to_dataset(parts.files, like)
    assert found["n"][:] == [1, 2, 3, 0.5]
    assert found.features == {"n": FLOAT}
    assert not caplog.messages

    size = file("large", n=[1, 2]).stat().st_size
    for most, files in ((size + 1, 1), (size, 3)):  # a file of that size stays as it is
        monkeypatch.setattr(arrow_parts, "_LARGE", most)
        several = ArrowParts(folder)
        for name, numbers in (("first", [0]), ("large", [1, 2]), ("last", [3])):
            several.add(file(name, n=numbers), len(numbers))
        several.finish()
        assert len(several.files) == files
        assert to_dataset(several.files, like)["n"][:] == [0, 1, 2, 3]

    only = ArrowParts(folder)
    only.add(file("none", n=[], kinds={"n": TEXT}), 0)
    only.finish()
    assert [path.name for path in only.files] == ["no-rows.arrow"]


@NEEDS_JSON
def test_a_column_that_becomes_json_is_reported_once_with_both_types(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    parts = ArrowParts(tmp_path)
    for number, values in enumerate(([1], ["a"], [2], [{"k": 3}])):
        path = tmp_path / f"{number}.in"
        with datasets.arrow_writer.ArrowWriter(path=str(path)) as writer:
            writer.write_table(datasets.Dataset.from_dict({"n": values}).data.table)
        parts.add(path, 1)
    parts.finish()
    assert caplog.messages == [
        "column 'n' becomes Json: it is Value('int64') in some rows, Value('string') in others"
    ]
    assert to_dataset(parts.files, datasets.Dataset.from_dict({"n": [0]}))["n"][:] == [
        1,
        "a",
        2,
        {"k": 3},
    ]
