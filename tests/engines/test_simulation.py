"""The scheduler and the record of a run over many simulated shards.

Workers die, and the run itself is killed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_over_many_shards_with_dying_workers_is_killed_resumed_and_counted(tmp_path: Path):
    words = [
        "--shards",
        "2000",
        "--workers",
        "128",
        "--fail-rate",
        "0.02",
        "--most",
        "50",
        "--compare",
    ]
    line = [sys.executable, str(ROOT / "scripts" / "simulate"), *words]
    # Otherwise the script would look whether to install.
    entered = {
        **os.environ,
        "_WDSFLOW_SCRIPT": "test",
    }
    done = subprocess.run(line, env=entered, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed: dead, " in done.stdout
    assert "compacted: a line for each shard" in done.stdout
    assert "a run without a kill writes the same record" in done.stdout
    (resumed,) = [text for text in done.stdout.splitlines() if text.startswith("resumed: ")]
    assert int(resumed.split(";")[1].split()[0]) > 3  # workers that died after the kill
