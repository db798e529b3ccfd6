"""Index files of remote shards: written locally, and identical to those of local shards."""

import json
from pathlib import Path

import pytest

from tests.cli import shards
from tests.cli.commands import run
from tests.printed.pasted import commands, paste
from tests.servers import http_server

pytest.importorskip("aiohttp", reason="aiohttp is not installed")


# A thread of the server may end with its socket open if the
# client closes a connection at the wrong moment.
@pytest.mark.sample(1)
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("ranges", [True, False])
def test_files_of_remote_shards_are_those_of_local_ones(
    tmp_path: Path, ranges: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    shards.with_txt(tmp_path / "here")
    assert run("index", tmp_path / "here", "--sizes", "--energon", "--timm") == 0
    served = {path.name: path.read_bytes() for path in sorted((tmp_path / "here").glob("*.tar"))}
    with http_server(served, ranges=ranges) as (url, _):
        words = ["index", f"{url}/{{0000..0001}}.tar", "--sizes", "--energon", "--timm"]
        assert run(*words) == 2
        (command,) = commands(capsys.readouterr().err)
        assert paste(command, tmp_path).status == 0
        assert run(*words, "-o", tmp_path / "out") == 0
    for name in ("sizes.json", "_info.json", "0000.tar.idx", "0001.tar.idx"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"0000.tar": 8, "0001.tar": 8}


def test_the_output_of_a_command_has_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("index", "pipe:cat a.tar") == 2
    assert "has no name" in capsys.readouterr().err
