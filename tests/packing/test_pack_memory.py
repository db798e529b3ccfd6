"""The memory that a pack takes does not grow with the rows of its table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packing.tables import write_images

pytestmark = pytest.mark.usefixtures("new_interpreters")

PACK = """
import json, sys
from wdsflow.memory.usage import peak_resident_bytes
from wdsflow.packing.run_pack import pack_shards
folder, options = sys.argv[1], json.loads(sys.argv[2])
report = pack_shards(f"{folder}/t.jsonl", f"{folder}/out", **options)
print(json.dumps([report.rows, report.samples, report.left_out.total(), peak_resident_bytes() >> 20]))
"""


@pytest.mark.deep
@pytest.mark.parametrize(
    "options", [{}, {"key": "id"}, {"shuffle": 1}], ids=["in order", "keys", "shuffled"]
)
def test_fifty_times_as_many_rows_take_a_few_mebibytes_more(tmp_path: Path, options):
    peaks = []
    for rows in (2_000, 100_000):
        folder = tmp_path / str(rows)
        images = write_images(folder, 10)
        with (folder / "t.jsonl").open("w") as file:
            for number in range(rows):
                caption = "a caption of some words" if number % 10 else ""
                facts = {
                    "image": images[number % 10],
                    "caption": caption,
                    "id": number,
                    "more": "x" * 200,
                }
                file.write(json.dumps(facts) + "\n")
        command = [sys.executable, "-c", PACK, str(folder), json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts = json.loads(done.stdout)
        assert counts[:3] == [rows, rows * 9 // 10, rows // 10]
        peaks.append(counts[3])
    assert peaks[1] < peaks[0] + 60, peaks


@pytest.mark.deep
def test_rows_that_are_left_out_when_they_are_read_are_not_in_memory(tmp_path: Path):
    peaks = []
    for rows in (2_000, 100_000):
        folder = tmp_path / str(rows)
        write_images(folder, 1)
        (folder / "img/page.jpg").write_bytes(b"<html>" + b"x" * 50)
        with (folder / "t.jsonl").open("w") as file:
            for number in range(rows):
                name = "img/page.jpg" if number % 50 else "img/0.jpg"
                file.write(json.dumps({"image": name, "caption": "a caption of some words"}) + "\n")
        command = [sys.executable, "-c", PACK, str(folder), "{}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts = json.loads(done.stdout)
        assert counts[:3] == [rows, rows // 50, rows * 49 // 50]
        assert (folder / "out/.wdsflow/pack.jsonl").stat().st_size < 1 << 16
        peaks.append(counts[3])
    assert peaks[1] < peaks[0] + 20, peaks
