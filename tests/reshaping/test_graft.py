"""Grafts: tables of all kinds, joins of all kinds, refusals, damage."""

import csv
import gzip
import hashlib
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from tests.shards.archives import JPEG, folder, read_tar, tar_bytes, write_tar
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, ContradictedJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.table_files.errors import TableError

HERE = RunOptions(jobs=0)
CAPTIONS = [
    "plain",
    'with "quotes", commas',
    "two\nlines\r\n",
    "nul \0 in it",
    "ünï ☃ 😀",
    " ",
    "x" * 200_000,
]


def picture(key: str) -> bytes:
    return JPEG + key.encode() * 7


def write_shards(place: Path, shards: int = 2, samples: int = 4) -> str:
    place.mkdir(exist_ok=True)
    for shard in range(shards):
        entries = []
        for number in range(samples):
            key = f"{shard}{number:03}"
            facts = {
                "url": f"http://host/{key}.jpg",
                "key": key,
                "number": shard * samples + number,
            }
            entries += [
                (f"{key}.jpg", picture(key)),
                (f"{key}.txt", b"old"),
                (f"{key}.json", json.dumps(facts).encode()),
            ]
        write_tar(place / f"{shard}.tar", entries)
    return str(place)


@pytest.fixture
def shards(tmp_path: Path) -> str:
    """Two shards of four samples with jpg, txt, json."""
    return write_shards(tmp_path / "in")


def rows(**more: object) -> list[dict[str, object]]:
    return [
        {
            "key": f"{n // 4}{n % 4:03}",
            "url": f"http://host/{n // 4}{n % 4:03}.jpg",
            "caption": CAPTIONS[n % 7],
        }
        | more
        for n in range(8)
    ]


def write_table(path: Path, table: list[dict[str, object]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
    elif path.suffix in {".csv", ".tsv"}:
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(
                file, list(table[0]), delimiter="\t" if path.suffix == ".tsv" else ","
            )
            writer.writeheader()
            writer.writerows(table)
    else:
        data = "".join(json.dumps(row) + "\n" for row in table).encode("utf-8-sig")
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def captions(place: Path) -> dict[str, str]:
    found = (entry for path in sorted(place.glob("*.tar")) for entry in read_tar(path))
    return {name: data.decode() for name, data in found if name.endswith(".txt")}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.jsonl.gz"])
def test_tables_of_all_kinds_give_the_same_shards(shards: str, tmp_path: Path, name: str):
    table = write_table(tmp_path / name, rows())
    report = graft_shards(
        shards, tmp_path / "out", table=table, on="key", fields=["txt=caption"], jobs=2
    )
    assert captions(tmp_path / "out") == {
        f"{n // 4}{n % 4:03}.txt": CAPTIONS[n % 7] for n in range(8)
    }
    assert (report.total("matched"), report.matches.used) == (8, 8)
    before = [
        entry
        for n in (0, 1)
        for entry in read_tar(tmp_path / f"in/{n}.tar")
        if not entry[0].endswith("txt")
    ]
    after = [
        entry
        for n in (0, 1)
        for entry in read_tar(tmp_path / f"out/{n}.tar")
        if not entry[0].endswith("txt")
    ]
    assert after == before
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"0.tar": 4, "1.tar": 4}
    assert not (tmp_path / "out/.wdsflow/graft").exists()


@pytest.mark.deep
def test_a_folder_of_tables_is_one_table(shards: str, tmp_path: Path):
    (tmp_path / "tables").mkdir()
    for number in range(2):
        write_table(tmp_path / f"tables/{number}.parquet", rows()[4 * number : 4 * number + 4])
    for given in (
        tmp_path / "tables",
        f"{tmp_path}/tables/*.parquet",
        f"{tmp_path}/tables/{{0..1}}.parquet",
    ):
        report = graft_shards(
            shards, tmp_path / "out", table=given, on="key", fields=["txt=caption"], restart=True
        )
        assert report.total("matched") == 8


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("on", "column", "value"),
    [
        ("json:url", "url", lambda n: f"http://host/{n // 4}{n % 4:03}.jpg"),
        ("json:number=no", "no", float),
        (
            "sha256",
            "sha256",
            lambda n: hashlib.sha256(picture(f"{n // 4}{n % 4:03}")).hexdigest().upper(),
        ),
        (
            "sha256=bytes",
            "bytes",
            lambda n: hashlib.sha256(picture(f"{n // 4}{n % 4:03}")).digest(),
        ),
        ("xxh3", "xxh3", lambda n: xxhash.xxh3_64_hexdigest(picture(f"{n // 4}{n % 4:03}"))),
        ("xxh3=long", "long", lambda n: xxhash.xxh3_128_hexdigest(picture(f"{n // 4}{n % 4:03}"))),
        (
            "xxh3=signed",
            "signed",
            lambda n: signed(xxhash.xxh3_64_intdigest(picture(f"{n // 4}{n % 4:03}"))),
        ),
    ],
)
def test_samples_are_joined_by_json_and_by_the_hash_of_the_image(
    shards: str, tmp_path: Path, on, column, value
):
    table = pa.table({column: [value(n) for n in range(8)], "c": [str(n) for n in range(8)]})
    pq.write_table(table, tmp_path / "t.parquet")
    graft_shards(shards, tmp_path / "out", table=tmp_path / "t.parquet", on=on, fields=["txt=c"])
    assert list(captions(tmp_path / "out").values()) == [str(n) for n in range(8)]


def test_values_of_all_types_are_written_as_text_bytes_or_json(shards: str, tmp_path: Path):
    table = pa.table(
        {
            "key": ["0000"],
            "b": pa.array([b"\xff\0"], pa.binary()),
            "n": [5],
            "f": [0.5],
            "l": [["a", "ü"]],
            "d": pa.array([{"x": None}]),
            "t": [True],
            "nan": [float("nan")],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    fields = [
        "npy=b",
        "n.txt=n",
        "txt=l",
        "json:a.f=f",
        "json:l=l",
        "json:d=d",
        "cls=t",
        "json:nan=nan",
        "json:b=b",
    ]
    report = graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=fields
    )
    got = dict(read_tar(tmp_path / "out/0.tar"))
    assert (got["0000.npy"], got["0000.n.txt"], got["0000.cls"]) == (b"\xff\0", b"5", b"true")
    assert json.loads(got["0000.txt"]) == ["a", "ü"]
    assert got["0000.json"].startswith(
        b'{"url": "http://host/0000.jpg", "key": "0000", "number": 0, "a": {"f": 0.5}'
    )
    assert json.loads(got["0000.json"])["d"] == {"x": None}
    assert report.merged("missed") == {
        "json:nan=nan: null in the table": 1,
        "json:b=b: bytes, which JSON cannot hold": 1,
    }
    assert report.refused
    assert report.values_not_set == ["json:nan=nan", "json:b=b"]


def test_numbers_and_text_beyond_json_are_kept_or_counted(shards: str, tmp_path: Path):
    odd = {
        "key": "0000",
        "big": 10**30,
        "deep": [[float("nan"), 2**64]],
        "half": "\ud800",
        "inside": ["\ud800"],
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(odd))
    fields = ["big.txt=big", "json:big=big", "json:deep=deep", "txt=half", "json:inside=inside"]
    report = graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key", fields=fields
    )
    got = dict(read_tar(tmp_path / "out/0.tar"))
    assert (got["0000.big.txt"], got["0000.txt"]) == (b"1" + b"0" * 30, b"old")
    assert got["0000.json"].endswith(b', "big": %d, "deep": [[null, %d]]}' % (10**30, 2**64))
    reason = "text that UTF-8 cannot hold"
    assert report.merged("missed") == {f"txt=half: {reason}": 1, f"json:inside=inside: {reason}": 1}


def test_the_scores_of_a_run_are_a_table(tmp_path: Path):
    """The same keys are in both shards: those of a ledger count for one shard each."""
    urls = write_shards(tmp_path / "in")
    with tarfile.open(tmp_path / "in/1.tar") as tar:
        renamed = [("0" + info.name[1:], tar.extractfile(info).read()) for info in tar]
    write_tar(
        tmp_path / "in/1.tar",
        [(name, data if not name.endswith("txt") else data * 2) for name, data in renamed],
    )
    measure_shards(
        urls, tmp_path / "scored", Recipe(scores=("caption_length",), hash_images=True), HERE
    )

    def scores(folder: str, out: str) -> list[float]:
        options = {"table": tmp_path / "scored", "on": "key", "fields": ["json:n=caption_length"]}
        assert graft_shards(folder, tmp_path / out, **options).total("matched") == 8
        entries = [entry for n in (0, 1) for entry in read_tar(tmp_path / out / f"{n}.tar")]
        return [json.loads(data)["n"] for name, data in entries if name.endswith("json")]

    assert scores(urls, "out") == [3.0] * 4 + [6.0] * 4
    shutil.copytree(urls, tmp_path / "moved")
    assert scores(str(tmp_path / "moved"), "moved-out") == [3.0] * 4 + [6.0] * 4
    Path(urls, "0.tar").rename(tmp_path / "0.tar")
    # Same name, same keys, other images.
    shutil.copy(tmp_path / "in/1.tar", tmp_path / "moved/0.tar")
    with pytest.raises(ContradictedJoin, match="another image_xxh3"):
        scores(str(tmp_path / "moved"), "other-out")
    options = {"table": tmp_path / "scored", "fields": ["json:n=caption_length"]}
    report = graft_shards(str(tmp_path / "moved/1.tar"), tmp_path / "hash", on="xxh3", **options)
    assert report.total("matched") == 4
    (tmp_path / "more").mkdir()
    shutil.copy(tmp_path / "moved/1.tar", tmp_path / "more/1.tar")
    # A shard that was not measured has no scores, though its keys are those of another.
    shutil.copy(tmp_path / "moved/1.tar", tmp_path / "more/8.tar")
    both = [str(tmp_path / "moved/1.tar"), str(tmp_path / "more/8.tar")]
    report = graft_shards(both, tmp_path / "both", on="key", **options)
    assert [shard.matched for shard in report.shards] == [4, 0]
    with pytest.raises(NoMatch) as failed:
        graft_shards(both[1], tmp_path / "none", on="key", **options)
    assert failed.value.advice[0] == "the samples have 0000, 0001, 0002"
    twice = [str(tmp_path / "moved/1.tar"), str(tmp_path / "more/1.tar")]
    with pytest.raises(TableError, match=r"Several are called 1\.tar"):
        graft_shards(twice, tmp_path / "twice", on="key", **options)


def test_scores_of_another_shard_of_the_same_name_and_keys_are_refused(tmp_path: Path):
    urls = write_shards(tmp_path / "in")
    measure_shards(urls, tmp_path / "scored", Recipe(scores=("caption_length",)), HERE)
    shutil.copytree(urls, tmp_path / "other")
    entries = read_tar(tmp_path / "in/0.tar")
    write_tar(
        tmp_path / "other/0.tar",
        [(name, data + b" " * name.endswith("txt")) for name, data in entries],
    )
    options = {"table": tmp_path / "scored", "on": "key", "fields": ["json:n=caption_length"]}
    with pytest.raises(TableError, match="was made from another shard"):
        graft_shards(str(tmp_path / "other"), tmp_path / "out", **options)
    assert graft_shards(urls, tmp_path / "out", **options).total("matched") == 8


@pytest.mark.deep
def test_a_run_that_is_refused_removes_nothing_even_if_it_was_to_start_again(
    shards: str, tmp_path: Path
):
    write_table(tmp_path / "t.jsonl", rows())
    options = {"on": "key", "fields": ["txt=caption"]}
    graft_shards(shards, tmp_path / "out", table=tmp_path / "t.jsonl", **options)
    before = {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }
    write_table(tmp_path / "twice.jsonl", [*rows(), *rows()])
    with pytest.raises(AmbiguousJoin):
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "twice.jsonl", restart=True, **options
        )
    assert before == {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }


def test_a_ledger_without_a_finished_shard_is_refused(shards: str, tmp_path: Path):
    measure_shards(shards, tmp_path / "scored", Recipe(scores=("caption_length",)), HERE)
    (tmp_path / "scored/.wdsflow/manifest.jsonl").write_text("")
    with pytest.raises(TableError) as refused:
        graft_shards(
            shards,
            tmp_path / "out",
            table=tmp_path / "scored",
            on="key",
            fields=["json:n=caption_length"],
        )
    assert str(refused.value) == (
        f"no shard of {tmp_path}/scored is finished yet: its ledger is empty"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["9.tar", "sizes.json"])
def test_a_folder_with_shards_or_counts_of_others_is_refused(
    shards: str, tmp_path: Path, name: str
):
    write_table(tmp_path / "t.jsonl", rows())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="no graft wrote it"):
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key", fields=["txt=caption"]
        )
    assert (tmp_path / "out" / name).read_bytes() == b"mine"


def test_samples_and_rows_without_a_partner_are_counted_and_listed(shards: str, tmp_path: Path):
    table = [*rows()[:3], {"key": "nobody"}, {"key": None}, {"key": "no\nbody"}]
    write_table(tmp_path / "t.jsonl", table)
    report = graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key", fields=["txt=caption"]
    )
    text = str(report)
    assert "samples: 3 matched + 5 unmatched + 0 ambiguous + 0 without field = 8" in text
    assert "rows of the table: 3 used + 2 unmatched + 1 without a value = 6" in text
    assert r"unmatched: nobody, no\nbody" in text
    listed = [
        json.loads(line)
        for line in (tmp_path / "out/.wdsflow/graft-unmatched.jsonl").read_text().splitlines()
    ]
    assert listed == [{"row": 4, "key": "nobody"}, {"row": 6, "key": "no\nbody"}]
    assert [*captions(tmp_path / "out").values()][3:] == ["old"] * 5
    report = graft_shards(
        shards,
        tmp_path / "less",
        table=tmp_path / "t.jsonl",
        on="key",
        fields=["txt=caption"],
        drop_unmatched=True,
    )
    assert (report.total("written"), report.total("dropped")) == (3, 5)
    assert "  left out: 5 x no row was set" in str(report).splitlines()
    assert [path.name for path in sorted((tmp_path / "less").glob("*.tar"))] == ["0.tar"]
    assert (tmp_path / "less/__len__").read_text() == "3\n"


def test_keys_of_another_download_are_refused_by_their_urls(shards: str, tmp_path: Path):
    table = rows()
    for row, other in zip(table[:3], rows()[1:4], strict=True):
        row["url"] = other["url"]
    write_table(tmp_path / "t.parquet", table)
    with pytest.raises(
        ContradictedJoin, match="3 of 8 compared samples have another url"
    ) as refused:
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=["txt=caption"]
        )
    assert (
        refused.value.evidence[0]
        == "0000: the table has http://host/0001.jpg, the shard http://host/0000.jpg"
    )
    assert not (tmp_path / "out").exists()


def test_ambiguous_samples_are_refused_before_anything_is_written(shards: str, tmp_path: Path):
    write_table(tmp_path / "t.parquet", [*rows(), rows()[2]])
    with pytest.raises(
        AmbiguousJoin, match="1 sample with several rows of the table each, such as 0002"
    ):
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=["txt=caption"]
        )
    write_table(tmp_path / "t.parquet", rows())
    twice = [f"{shards}/0.tar", f"{shards}/0.tar"]
    with pytest.raises(AmbiguousJoin, match="8 samples with the row of another sample"):
        graft_shards(
            twice, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=["txt=caption"]
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.deep
def test_a_duplicate_that_no_sample_has_disturbs_nobody(shards: str, tmp_path: Path):
    write_table(tmp_path / "t.parquet", [*rows(), {"key": "else"}, {"key": "else"}])
    report = graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=["txt=caption"]
    )
    assert (report.matches.used, report.matches.unmatched_rows, report.matches.ambiguous_rows) == (
        8,
        2,
        0,
    )


def test_a_table_of_which_nothing_matches_is_no_success(shards: str, tmp_path: Path):
    write_table(tmp_path / "t.parquet", [{"key": 1, "caption": "a"}, {"key": 2, "caption": "b"}])
    with pytest.raises(NoMatch, match="none of 8 samples has a row") as failed:
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "t.parquet", on="key", fields=["txt=caption"]
        )
    assert failed.value.advice == [
        "the samples have 0000, 0001, 0002",
        "the table has 1, 2 in column key",
    ]
    pq.write_table(
        pa.table({"key": pa.array([], pa.string()), "caption": pa.array([], pa.string())}),
        tmp_path / "e.parquet",
    )
    with pytest.raises(NoMatch, match="has no rows"):
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / "e.parquet", on="key", fields=["txt=caption"]
        )
    assert not (tmp_path / "out").exists()


def test_a_field_that_no_sample_has_or_rows_of_which_all_are_several_are_no_success(
    shards: str, tmp_path: Path
):
    write_table(tmp_path / "t.jsonl", [{"key": "0000", "caption": text} for text in "ab"])
    options = {"table": tmp_path / "t.jsonl", "fields": ["txt=caption"]}
    with pytest.raises(NoMatch, match="none of 8 samples has a row") as failed:
        graft_shards(shards, tmp_path / "out", on="json:nothing=key", **options)
    assert failed.value.advice == [
        "no sample has json nothing",
        "the table has 0000, 0000 in column key",
    ]
    with pytest.raises(NoMatch, match=r"^all samples that have a row are ambiguous$"):
        graft_shards(shards, tmp_path / "out", on="key", ambiguous="drop", **options)
    assert not (tmp_path / "out").exists()


def test_samples_without_an_image_are_not_joined_by_its_hash(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar", [("a.jpg", picture("a")), ("b.txt", b"old"), ("c.jpg", picture("c"))]
    )
    table = [{"sha256": hashlib.sha256(picture(key)).hexdigest(), "c": key} for key in "ab"]
    report = graft_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "out",
        table=write_table(tmp_path / "t.jsonl", table),
        on="sha256",
        fields=["txt=c"],
    )
    counts = "samples: 1 matched + 1 unmatched + 0 ambiguous + 1 without field = 3"
    assert counts in str(report)
    assert captions(tmp_path / "out") == {"a.txt": "a", "b.txt": "old"}


def test_samples_and_values_are_taken_in_batches_without_a_difference(
    shards: str, tmp_path: Path, monkeypatch
):
    # Of a shard with a name that is not UTF-8, no notes are kept between the passes.
    others = [(f"{key}.jpg", picture(key)) for key in ("b", "c", "d", "e")]
    write_tar(tmp_path / "in/2.tar", [("\udcff.jpg", picture("x")), *others])
    table = [*rows(), *({"key": key, "caption": f"of {key}"} for key in "bcde")]
    options = {
        "table": write_table(tmp_path / "t.jsonl", table),
        "on": "key",
        "fields": ["txt=caption"],
    }
    graft_shards(shards, tmp_path / "one", **options)
    monkeypatch.setattr("wdsflow.reshaping.graft.sample_notes.AT_ONCE", 3)
    monkeypatch.setattr("wdsflow.reshaping.graft.look_shard.AT_ONCE", 3)
    monkeypatch.setattr("wdsflow.reshaping.graft.graft_pieces._WINDOW", 1)
    report = graft_shards(shards, tmp_path / "many", **options)
    assert report.total("matched") == 12
    for number in range(3):
        name = f"{number}.tar"
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert captions(tmp_path / "many")["e.txt"] == "of e"


def test_a_json_that_is_too_large_is_not_changed(shards: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("wdsflow.reshaping.graft.graft_pieces.LARGEST_JSON", 20)
    before = read_tar(Path(shards, "0.tar"))
    write_tar(
        Path(shards, "0.tar"),
        [(name, b"{}" if name == "0001.json" else data) for name, data in before],
    )
    report = graft_shards(
        shards,
        tmp_path / "out",
        table=write_table(tmp_path / "t.jsonl", rows()),
        on="key",
        fields=["json:c=caption"],
    )
    assert report.merged("impossible") == {"its json is larger than 64 MiB": 7}
    got = dict(read_tar(tmp_path / "out/0.tar"))
    assert json.loads(got["0001.json"]) == {"c": CAPTIONS[1]}
    assert got["0000.json"] == dict(before)["0000.json"]


def test_rows_without_a_sample_are_listed_also_by_a_column_called_row(shards: str, tmp_path: Path):
    table = [{"row": row["key"], "c": "new"} for row in rows()[:2]] + [{"row": "nobody", "c": ""}]
    write_table(tmp_path / "t.jsonl", table)
    graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key=row", fields=["txt=c"]
    )
    assert (tmp_path / "out/.wdsflow/graft-unmatched.jsonl").read_text() == '{"row":"nobody"}\n'


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b'key,caption\n0000,"never closed\n0001,b\n', "is a quote missing"),
        ("t.csv", b'key,caption\n0000,"a"b\n', "line 2"),
        ("t.csv", b"key,caption\n0000,a,b\n", "line 2 has 3 fields instead of 2"),
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b",,\n1,2,3\n", "has no names in its first line"),
        ("t.csv", b"key,key,caption\n", "2 columns 'key'"),
        ("t.jsonl", b'{"key": "0000"}\n{"key": \n', "line 2 is not JSON"),
        ("t.jsonl", b"[1]\n", "line 1 is not an object"),
        (
            "t.jsonl.gz",
            gzip.compress(b'{"key": "0000", "caption": "a"}\n' * 9, mtime=0)[:-12],
            "t.jsonl.gz",
        ),
        ("t.parquet", b"PAR1 no", "is not a Parquet file"),
        ("t.txt", b"key", "the kind of t.txt is not known"),
    ],
)
def test_a_table_that_is_broken_is_refused_with_the_place(
    shards: str, tmp_path: Path, name, data, message
):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TableError, match=message):
        graft_shards(
            shards, tmp_path / "out", table=tmp_path / name, on="key", fields=["txt=caption"]
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.deep
def test_text_that_utf8_cannot_hold_is_reported_and_not_written(shards: str, tmp_path: Path):
    (tmp_path / "t.csv").write_bytes(b"key,caption\n0000,caf\xe9\n0001,fine\n")
    (tmp_path / "t.jsonl").write_bytes(
        b'{"key": "0000", "caption": "a\\ud800"}\n{"key": "0001", "caption": "fine"}\n'
    )
    for name in ("t.csv", "t.jsonl"):
        report = graft_shards(
            shards, tmp_path / name[2:], table=tmp_path / name, on="key", fields=["txt=caption"]
        )
        assert report.merged("missed") == {"txt=caption: text that UTF-8 cannot hold": 1}
        assert report.refused
        assert [*captions(tmp_path / name[2:]).values()][:2] == ["old", "fine"]


def test_members_that_are_replaced_keep_their_place_and_name_and_others_their_bytes(tmp_path: Path):
    long = "l" * 150
    entries = [
        ("a.TXT", b"old"),
        folder("between"),
        ("a.json", b"[1]"),
        (f"{long}.jpg", b"x"),
        ("README", b"r"),
    ]
    write_tar(tmp_path / "0.tar", entries, tarfile.PAX_FORMAT)
    write_table(tmp_path / "t.jsonl", [{"key": "a", "c": "new"}, {"key": long, "c": "1"}])
    report = graft_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "o",
        table=tmp_path / "t.jsonl",
        on="key",
        fields=["txt=c"],
    )
    assert read_tar(tmp_path / "o/0.tar") == [
        ("a.TXT", b"new"),
        ("a.json", b"[1]"),
        (f"{long}.jpg", b"x"),
        (f"{long}.txt", b"1"),
    ]
    assert report.merged("left_out") == {"no-extension": 1}
    report = graft_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "p",
        table=tmp_path / "t.jsonl",
        on="key",
        fields=["txt=c", "json:c=c"],
    )
    assert report.merged("impossible") == {"its json is not an object": 1}
    # All that was to be set in a sample, or nothing.
    assert dict(read_tar(tmp_path / "p/0.tar"))["a.TXT"] == b"old"
    assert (report.total("matched"), report.refused) == (1, True)


def test_cut_and_unreadable_shards_are_reported_and_the_rest_is_written(
    shards: str, tmp_path: Path
):
    data = Path(shards, "1.tar").read_bytes()
    Path(shards, "1.tar").write_bytes(data[: 5 * 1024 + 512 + 20])
    Path(shards, "2.tar").write_bytes(b"no tar at all" * 100)
    Path(shards, "3.tar").write_bytes(tar_bytes([]))
    write_table(tmp_path / "t.jsonl", rows())
    report = graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key", fields=["txt=caption"]
    )
    assert report.lost
    assert [shard.samples for shard in report.shards][0::3] == [4, 0]
    assert report.shards[1].lost
    assert report.shards[2].lost
    assert [path.name for path in sorted((tmp_path / "out").glob("*.tar"))] == ["0.tar", "1.tar"]
    assert captions(tmp_path / "out")["0000.txt"] == CAPTIONS[0]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves shards open
def test_webdataset_reads_the_new_captions(shards: str, tmp_path: Path):
    wds = pytest.importorskip("webdataset")
    write_table(tmp_path / "t.parquet", rows())
    graft_shards(
        shards,
        tmp_path / "out",
        table=tmp_path / "t.parquet",
        on="key",
        fields=["txt=caption", "json:c=caption"],
    )
    got = list(wds.WebDataset(str(tmp_path / "out/{0..1}.tar"), shardshuffle=False).decode())
    assert [sample["txt"] for sample in got] == [CAPTIONS[n % 7] for n in range(8)]
    assert [sample["json"]["c"] for sample in got] == [CAPTIONS[n % 7] for n in range(8)]
    assert [sample["__key__"] for sample in got] == [row["key"] for row in rows()]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "records", [{"path": "all/same.jpg"}, {"hdrcharset": "BINARY", "path": "x.jpg"}, {"size": "1"}]
)
def test_new_members_keep_their_names_after_a_global_header_that_changes_them(
    tmp_path: Path, records
):
    extra = tarfile.TarInfo().create_pax_global_header(records)
    (tmp_path / "0.tar").write_bytes(extra + tar_bytes([("a.jpg", b"1")]))
    key = read_tar(tmp_path / "0.tar")[0][0].removesuffix(".jpg")
    (tmp_path / "t.csv").write_text(f"key,caption\n{key},a new caption\n")
    graft_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "out",
        table=tmp_path / "t.csv",
        on="key",
        fields=["txt=caption"],
    )
    assert read_tar(tmp_path / "out" / "0.tar") == [
        (f"{key}.jpg", b"1"),
        (f"{key}.txt", b"a new caption"),
    ]


@pytest.mark.deep
@pytest.mark.parametrize("longest", [3, 2048, 1 << 20])
def test_large_values_arrive_whole(shards: str, tmp_path: Path, longest: int, monkeypatch):
    monkeypatch.setattr("wdsflow.joining.loaded_rows._LINE_BYTES", longest)
    monkeypatch.setattr("wdsflow.joining.loaded_rows._UNSPLIT_BYTES", 1)
    texts = [
        letter * size
        for letter, size in zip(
            "abcdefgh", (1, 20_000, 5, 300_000, 16_000, 17_000, 0, 9), strict=True
        )
    ]
    lines = [
        json.dumps({"key": row["key"], "c": text}) for row, text in zip(rows(), texts, strict=True)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    graft_shards(shards, tmp_path / "out", table=tmp_path / "t.jsonl", on="key", fields=["txt=c"])
    found = captions(tmp_path / "out")
    assert [found[f"{row['key']}.txt"] for row in rows()] == texts


@pytest.mark.deep
def test_columns_whose_names_differ_in_case_alone_are_not_confused(shards: str, tmp_path: Path):
    given = [
        {"Key": "x", "key": row["key"], "C": "wrong", "c": f"right {row['key']}"} for row in rows()
    ]
    pq.write_table(pa.Table.from_pylist(given), tmp_path / "t[1].parquet")
    graft_shards(
        shards, tmp_path / "out", table=tmp_path / "t[1].parquet", on="key", fields=["txt=c"]
    )
    assert captions(tmp_path / "out")[f"{rows()[0]['key']}.txt"] == f"right {rows()[0]['key']}"
