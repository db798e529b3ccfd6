"""wdsflow works where pyarrow and pandas are not installed."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.packing.tables import jpeg
from tests.shards.archives import read_tar, write_tar

pytestmark = pytest.mark.usefixtures("new_interpreters")

JPEG = jpeg()

# Runs commands one after the other in a process that can import neither.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import json
from wdsflow.cli.entry_point import run

for command in json.loads(sys.argv[1]):
    sys.argv = ["wdsflow", *command]
    try:
        run()
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""


def test_a_set_is_filtered_grafted_and_packed_without_pyarrow(tmp_path: Path) -> None:
    members = [
        (f"{key}.{field}", data)
        for key in "abc"
        for field, data in (("jpg", JPEG), ("txt", key.encode() * 9))
    ]
    write_tar(tmp_path / "0.tar", members)
    shard, table, images = (
        str(tmp_path / name) for name in ("0.tar", "t.parquet", "images.parquet")
    )
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT 'b' AS key, 'new' AS caption, [1.5::DOUBLE, NULL] AS n) TO '{table}' (FORMAT parquet)"
        )
        query = "SELECT {'bytes': $1::BLOB, 'path': 'x.jpg'} AS image, 'a caption' AS caption"
        database.execute(f"COPY ({query}) TO '{images}' (FORMAT parquet)", [JPEG])
    out = {name: str(tmp_path / name) for name in ("kept", "again", "grafted", "packed")}
    graft = ["--from", table, "--on", "key", "--set", "txt=caption", "--set", "json:n=n"]
    commands = [
        [
            "filter",
            shard,
            "-o",
            out["kept"],
            "--where",
            "width > 1 and caption != 'aaaaaaaaa'",
            "--jobs",
            "0",
        ],
        [
            "filter",
            shard,
            "-o",
            out["again"],
            "--ledger",
            out["kept"],
            "--where",
            "width > 1 and key == 'b'",
            "--jobs",
            "0",
        ],
        ["graft", shard, "-o", out["grafted"], *graft],
        ["pack", images, "-o", out["packed"]],
    ]
    run = [sys.executable, "-c", WITHOUT, json.dumps(commands)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [name for name, _ in read_tar(tmp_path / "kept/0.tar")] == [
        "b.jpg",
        "b.txt",
        "c.jpg",
        "c.txt",
    ]
    assert [name for name, _ in read_tar(tmp_path / "again/0.tar")] == ["b.jpg", "b.txt"]
    grafted = dict(read_tar(tmp_path / "grafted/0.tar"))
    assert (grafted["b.txt"], json.loads(grafted["b.json"])) == (b"new", {"n": [1.5, None]})
    (packed,) = (tmp_path / "packed").glob("*.tar")
    assert [data for name, data in read_tar(packed) if name.endswith(".jpg")] == [JPEG]
