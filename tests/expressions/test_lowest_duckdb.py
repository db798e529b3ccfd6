"""The lowest DuckDB that wdsflow allows gives the same results as the installed one.

All tests of expressions run with it, too.
"""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from support.environment import ensure_lowest_duckdb

ROOT = Path(__file__).parents[2]


@pytest.mark.deep
def test_expressions_mean_the_same_with_the_lowest_duckdb() -> None:
    path = os.pathsep.join([str(ensure_lowest_duckdb()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    version = [sys.executable, "-c", "import duckdb; print(duckdb.__version__)"]
    lowest = subprocess.run(
        version, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert lowest != duckdb.__version__
    assert f'"duckdb>={lowest.removesuffix(".0")}"' in (ROOT / "pyproject.toml").read_text()
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/expressions",
        f"--ignore={__file__}",
    ]
    done = subprocess.run(
        run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
