"""The end of the program ``wdsflow``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("new_interpreters")

ROOT = Path(__file__).resolve().parent.parent.parent
ENDS = """
import atexit, sys, threading, time
import wdsflow.cli.main
from wdsflow.cli import entry_point

class Found:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        print("found by the collector")

def main():
    {loaded}
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (time.sleep(0.1), print("the thread has ended"))).start()
    entry_point.kept = Found()
    sys.stdout.write("unflushed\\n")
    sys.exit(3)

sys.modules["wdsflow.cli.main"].main = main
entry_point.run()
"""


@pytest.mark.parametrize("loaded", ["sys.modules['torch'] = sys", "pass"])
def test_with_torch_loaded_it_ends_as_python_does_without_a_search_through_all_objects(
    loaded: str,
) -> None:
    run = [sys.executable, "-c", ENDS.format(loaded=loaded)]
    done = subprocess.run(
        run, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    said = ["unflushed", "the thread has ended", "at exit"]
    assert done.stdout.splitlines() == said + ["found by the collector"] * (loaded == "pass")
