"""The command that docs/extending.md shows is complete: it is run as it is there."""

import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.cli.shards import with_txt
from tests.filtering.shards import digests
from tests.servers import http_server

PAGE = Path(__file__).parents[2] / "docs/extending.md"
RUN = """import sys, wdsflow.cli, wdsflow.cli.main as main
wdsflow.cli.__path__.append(sys.argv.pop(1))
main.COMMANDS["thin"] = "Keep every tenth sample of each shard."
main.main(sys.argv[1:])"""
SHARDS, SAMPLES = 30, 25


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The start of the command line."""
    folder = tmp_path_factory.mktemp("command")
    pattern = r"^```python no-run thin.py\n(.*?)^```"
    block = re.search(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block
    (folder / "thin.py").write_text(block[1])
    return [sys.executable, "-c", RUN, str(folder), "thin"]


def test_the_command_of_the_page_keeps_a_tenth_and_counts(command: list[str], tmp_path: Path):
    urls = with_txt(tmp_path, 2, SAMPLES)
    files = {path.name: path.read_bytes() for path in tmp_path.glob("*.tar")}
    local, remote = tmp_path / "local", tmp_path / "remote"
    done = subprocess.run([*command, urls, "-o", local], capture_output=True, text=True, check=True)
    assert f"0001.tar: samples: {SAMPLES} in = 3 out + 22 left out" in done.stdout
    with tarfile.open(local / "0001.tar") as tar:
        assert [name for name in tar.getnames() if name.endswith("txt")] == [
            "010000.txt",
            "010010.txt",
            "010020.txt",
        ]
    assert json.loads((local / "sizes.json").read_text()) == {"0000.tar": 3, "0001.tar": 3}
    with http_server(files) as (url, _):
        subprocess.run([*command, f"{url}/{{0000..0001}}.tar", "-o", remote], check=True)
    assert all(
        (remote / name).read_bytes() == (local / name).read_bytes()
        for name in (*files, "sizes.json")
    )
    (tmp_path / "0000.tar").write_bytes(bytes(10_240))
    (tmp_path / "0001.tar").write_bytes(files["0001.tar"][:-20_000])
    again = subprocess.run(
        [*command, urls, "-o", local], capture_output=True, text=True, check=False
    )
    assert (again.returncode, again.stdout.count("lost: ")) == (1, 1)
    assert not (local / "0000.tar").exists()


def test_the_command_of_the_page_resumes_after_a_kill(command: list[str], tmp_path: Path):
    urls, whole, killed = (
        with_txt(tmp_path, SHARDS, SAMPLES),
        tmp_path / "whole",
        tmp_path / "killed",
    )
    subprocess.run([*command, urls, "-o", whole], check=True, capture_output=True)
    with subprocess.Popen([*command, urls, "-o", killed], stderr=subprocess.DEVNULL) as run:
        lines, until = killed / ".wdsflow" / "thin.jsonl", time.monotonic() + 60
        while not (lines.exists() and lines.stat().st_size) and time.monotonic() < until:
            time.sleep(0.001)
        run.kill()
    first = lines.read_text().splitlines()
    assert 0 < len(first) < SHARDS
    assert not (killed / "sizes.json").exists()
    before = (killed / json.loads(first[0])["name"]).stat().st_mtime_ns
    subprocess.run([*command, urls, "-o", killed], check=True, capture_output=True)
    assert (killed / json.loads(first[0])["name"]).stat().st_mtime_ns == before
    assert digests(killed) == digests(whole)
