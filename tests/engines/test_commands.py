"""Shards that come from commands: none of these outlives who reads it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import await_end

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
ROOT = Path(__file__).resolve().parent.parent.parent


FILTER = ["filter", "-o", "out", "--where", "caption_words > 1", "--jobs"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("how", "words"),
    [
        (signal.SIGINT, [*FILTER, "2"]),
        (signal.SIGINT, [*FILTER, "0"]),
        (signal.SIGINT, ["repair", "-o", "out"]),
        (signal.SIGKILL, [*FILTER, "2"]),
    ],
    ids=lambda each: each.name if isinstance(each, signal.Signals) else " ".join(each),
)
def test_a_command_that_waits_for_its_storage_ends_with_the_run(
    tmp_path: Path, how: signal.Signals, words: list[str]
) -> None:
    for name in ("a.tar", "b.tar"):
        os.mkfifo(tmp_path / name)
    urls = [f"pipe:cat {tmp_path}/{name}" for name in ("a.tar", "b.tar")]
    run = [sys.executable, "-m", "wdsflow", *words, "--allow-pipe", *urls]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(run, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        family: list[psutil.Process] = []
        while not any(each.name() == "cat" for each in family):
            assert process.poll() is None
            time.sleep(0.05)
            family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(how)
        process.wait()
        await_end(*family)
    finally:
        process.kill()
        process.wait()
