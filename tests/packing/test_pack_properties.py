"""Random tables: the members that Python's tarfile reads are exactly the rows.

Real readers and ``validate`` agree.
"""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.depth import cases
from tests.packing.tables import jpeg, packed, usual_rows, write_csv, write_images, write_lines
from wdsflow import check, pack_shards
from wdsflow.packing.rows.keys import safe_key
from wdsflow.shards.tar.members import is_junk, is_meta, split_name, why_junk

READERS = [
    "open-clip-3.3",
    "open-clip-4",
    "webdataset-1",
    "webdataset-0.2",
    "datasets",
    "datasets-tables",
    "ray-data",
    "energon",
    "energon-crude",
]
Row = dict[str, Any]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IMAGES = st.one_of(
    st.sampled_from([f"img/{n}.jpg" for n in range(6)] + ["img/none.jpg", "t.jsonl"]), st.none()
)
ROWS = st.fixed_dictionaries(
    {
        "image": st.one_of(IMAGES, st.lists(IMAGES, max_size=4)),
        "caption": st.one_of(TEXT, st.none(), st.integers()),
    },
    optional={
        "key": TEXT,
        "more": st.one_of(TEXT, st.integers(), st.floats(allow_nan=False), st.lists(TEXT)),
    },
)


@given(TEXT)
def test_a_safe_key_is_a_key_for_readers_and_is_its_own_safe_key(text):
    key = safe_key(text)
    assert split_name(f"{key}.0.jpg") == (key, "0.jpg")
    assert safe_key(key) == key
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in key)
    assert len(f"{key}.99.jpg".encode()) <= 100


@pytest.mark.parametrize(
    "text", ["__MACOSX/x", "a/__MACOSX/x", "./__MACOSX/._x", "__x__/y", "._x", "__MACOSX", "a/._x"]
)
def test_a_safe_key_is_not_taken_for_a_file_of_a_system(text):
    name = f"{safe_key(text)}.jpg"
    assert (is_junk(safe_key(text), "jpg"), is_meta(name), why_junk(name)) == (False, False, "")
    assert safe_key(safe_key(text)) == safe_key(text)


def expected_samples(rows: list[Row], *, keyed: bool) -> dict[str, tuple[Row, list[str]]]:
    """Return the rows that become samples, and their files, by key."""
    taken: set[str] = set()
    found: dict[str, tuple[Row, list[str]]] = {}
    for number, row in enumerate(rows, 1):
        files = row["image"] if isinstance(row["image"], list) else [row["image"]]
        caption = row["caption"]
        key = f"{number:08d}" if not keyed else safe_key(row["key"]) if row.get("key") else ""
        has_files = bool(files) and all(file and "none" not in file for file in files)
        if (
            not key
            or key in taken
            or not has_files
            or not isinstance(caption, str)
            or not caption.strip()
        ):
            continue
        # The key of a row that is left out only when its file is read is taken all the same.
        taken.add(key)
        if all(file.startswith("img/") for file in files):
            found[key] = row, files
    return found


@settings(cases(8), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=12),
    samples=st.integers(1, 5),
    shuffle=st.one_of(st.none(), st.integers(0, 3)),
    by_key=st.booleans(),
)
def test_the_members_are_exactly_the_rows(tmp_path_factory, rows, samples, shuffle, by_key):
    folder = tmp_path_factory.mktemp("set")
    write_images(folder, 6)
    keyed = by_key and any("key" in row for row in rows)
    options = {"shuffle": shuffle, "samples": samples, **({"key": "key"} if keyed else {})}
    report = pack_shards(write_lines(folder / "t.jsonl", rows), folder / "out", **options)
    expected = expected_samples(rows, keyed=keyed)
    found = packed(folder / "out") if (folder / "out").exists() else {}
    assert found.keys() == expected.keys()
    for key, (row, files) in expected.items():
        names = ["jpg"] if len(files) == 1 else [f"{number}.jpg" for number in range(len(files))]
        images = {name: jpeg(int(file[4])) for name, file in zip(names, files, strict=True)}
        facts = json.loads(found[key].pop("json"))
        assert facts == {name: value for name, value in row.items() if name != "caption"}
        assert found[key] == {**images, "txt": row["caption"].encode()}
    assert (report.rows, report.samples, report.left_out.total()) == (
        len(rows),
        len(expected),
        len(rows) - len(expected),
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("options", [{}, {"key": "id", "shuffle": 2}])
def test_every_reader_of_pairs_gets_all_samples(tmp_path: Path, reader, options):
    table = write_csv(tmp_path / "t.csv", usual_rows(write_images(tmp_path, 40)))
    pack_shards(table, tmp_path / "out", samples=10, **options)
    report = check([str(tmp_path / "out")], readers=[reader], level="full")
    (verdict,) = report.verdicts
    assert (verdict.outcome, verdict.samples, verdict.usable) == ("trains", 40, 40)
    assert [finding.code for finding in report.findings if finding.severity == "error"] == []


def test_timm_reads_folders_of_classes(tmp_path: Path):
    for name in ("cat", "dog"):
        for number in range(20):
            path = tmp_path / "tree" / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(number))
    pack_shards(str(tmp_path / "tree"), tmp_path / "out", samples=10)
    (verdict,) = check([str(tmp_path / "out")], readers=["timm"]).verdicts
    assert (verdict.outcome, verdict.usable) == ("trains", 40)


@pytest.mark.webdataset
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_webdataset_reads_the_rows_in_order(tmp_path: Path):
    wds = pytest.importorskip("webdataset")
    pack_shards(
        write_lines(tmp_path / "t.jsonl", usual_rows(write_images(tmp_path, 30))),
        tmp_path / "out",
        samples=10,
    )
    paths = [str(path) for path in sorted((tmp_path / "out").glob("*.tar"))]
    read = list(wds.WebDataset(paths, shardshuffle=False))
    assert [(each["jpg"], each["txt"]) for each in read] == [
        (jpeg(n), f"caption {n}".encode()) for n in range(30)
    ]


@pytest.mark.parametrize("shuffle", [None, 1])
def test_shards_have_at_most_so_many_bytes(tmp_path: Path, shuffle):
    rows = usual_rows(write_images(tmp_path, 30))
    (tmp_path / "img/3.jpg").write_bytes(jpeg() + bytes(60_000))
    pack_shards(
        write_lines(tmp_path / "t.jsonl", rows), tmp_path / "out", size="20kB", shuffle=shuffle
    )
    shards = sorted((tmp_path / "out").glob("*.tar"))
    sizes = json.loads((tmp_path / "out/sizes.json").read_text())
    assert sum(sizes.values()) == 30
    assert all(path.stat().st_size <= 20_000 or sizes[path.name] == 1 for path in shards)
    assert len(shards) <= 8
