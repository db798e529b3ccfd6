"""The memory that a pack takes does not grow with the rows of its table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packing.tables import write_images

PACK = """
import json, sys
from wdsflow.memory.usage import peak
from wdsflow.packing.run_pack import pack_shards
folder, options = sys.argv[1], json.loads(sys.argv[2])
report = pack_shards(f"{folder}/t.jsonl", f"{folder}/out", **options)
print(json.dumps([report.rows, report.samples, report.left_out.total(), peak() >> 20]))
"""


@pytest.mark.deep
@pytest.mark.parametrize("options", [{}, {"key": "id"}, {"shuffle": 1}], ids=["in order", "keys", "shuffled"])
def test_fifty_times_as_many_rows_take_a_few_mebibytes_more(tmp_path: Path, options):
    peaks = []
    for rows in (2_000, 100_000):
        folder = tmp_path / str(rows)
        images = write_images(folder, 10)
        with (folder / "t.jsonl").open("w") as file:
            for number in range(rows):
                caption = "a caption of some words" if number % 10 else ""
                facts = {"image": images[number % 10], "caption": caption, "id": number, "more": "x" * 200}
                file.write(json.dumps(facts) + "\n")
        command = [sys.executable, "-c", PACK, str(folder), json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts = json.loads(done.stdout)
        assert counts[:3] == [rows, rows * 9 // 10, rows // 10]
        peaks.append(counts[3])
    assert peaks[1] < peaks[0] + 60, peaks
