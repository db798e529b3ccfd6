"""The programs in ``scripts/`` start, in the environment that they name.

Each explains its options.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
EXPLAINED = ["bench", "demo", "docs", "fresh", "gpu_check", "picture", "tiny_clip"]
# They install or resolve packages before they look at words, have steps in place of options, or are
# run by other tests.
OTHERS = ["conformance", "make_locks", "test", "gen_reference.py", "simulate"]


def purpose(script: str) -> str:
    """Return the environment that a script enters; "" if it has none."""
    found = re.search(r'^ *enter\("(\w*)"\)$', (SCRIPTS / script).read_text(), re.MULTILINE)
    return found[1] if found else ""


def test_each_script_is_tested_and_enters_an_environment_that_can_be_made():
    assert sorted(path.name for path in SCRIPTS.iterdir() if path.is_file()) == sorted(
        EXPLAINED + OTHERS
    )
    purposes = (
        (SCRIPTS / "support" / "environment.py")
        .read_text()
        .partition("\nPURPOSES = {")[2]
        .partition("\n}")[0]
    )
    known = set(re.findall(r'^ +"(\w+)": \[', purposes, re.MULTILINE))
    assert {purpose(script) for script in (*EXPLAINED, *OTHERS)} == known | {""}


@pytest.mark.parametrize("script", EXPLAINED)
def test_a_script_explains_its_options(script: str):
    entered = {**os.environ, "_WDSFLOW_SCRIPT": purpose(script)}  # otherwise it would install
    line = [sys.executable, str(SCRIPTS / script), "--help"]
    done = subprocess.run(line, env=entered, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert script in done.stdout
