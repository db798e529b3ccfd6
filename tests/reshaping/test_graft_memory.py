"""The memory that a graft takes: of the table, a part of each row."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.shards.archives import JPEG, read_tar, write_tar

pytestmark = pytest.mark.usefixtures("new_interpreters")

GRAFT = """
import json, sys
from wdsflow.memory.usage import peak_resident_bytes
from wdsflow.reshaping.graft.run_graft import graft_shards
folder = sys.argv[1]
options = {"table": f"{folder}/t.parquet", "on": "key", "fields": ["txt=caption"], "jobs": 2}
report = graft_shards(f"{folder}/in", f"{folder}/out", **options)
print(json.dumps([report.total("matched"), report.matches.unmatched_rows, peak_resident_bytes() >> 20]))
"""


def write_table(path: Path, rows: int) -> None:
    """Write rows in an order that is not that of the shards, 100 bytes each and more."""
    writer = None
    for start in range(0, rows, 500_000):
        numbers = pa.array(np.arange(start, min(start + 500_000, rows)) * 7_777_777 % rows)
        keys = pc.utf8_lpad(numbers.cast(pa.string()), 9, "0")
        captions = pc.binary_join_element_wise(
            "a caption of a hundred characters, as models write them, about image number", keys, " "
        )
        table = pa.table({"key": keys, "caption": captions})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("rows", "shards", "most"),
    [(200_000, 10, 400), pytest.param(10_000_000, 1_000, 1024, marks=pytest.mark.deep)],
    ids=["200,000 rows", "10 million rows"],
)
def test_a_table_of_any_size_is_joined_within_a_gibibyte(
    tmp_path: Path, rows: int, shards: int, most: int
):
    (tmp_path / "in").mkdir()
    write_table(tmp_path / "t.parquet", rows)
    step = rows // shards
    for shard in range(shards):
        keys = [f"{shard * step + number:09}" for number in range(100)]
        each = (
            (f"{key}.{field}", data)
            for key in keys
            for field, data in (("jpg", JPEG), ("txt", b"old"))
        )
        write_tar(tmp_path / f"in/{shard:04}.tar", each)
    done = subprocess.run(
        [sys.executable, "-c", GRAFT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    matched, unmatched, peak = json.loads(done.stdout)
    assert (matched, unmatched) == (shards * 100, rows - shards * 100)
    assert peak < most, f"{peak} MiB"
    got = dict(read_tar(tmp_path / f"out/{shards - 1:04}.tar"))
    key = f"{(shards - 1) * step + 99:09}"
    assert got[f"{key}.txt"].decode().endswith(f"image number {key}")
    assert got[f"{key}.jpg"] == JPEG
