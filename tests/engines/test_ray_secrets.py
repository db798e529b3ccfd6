"""Ray's logs on each node have no secret of a URL.

A file whose name looks like a command is read, not run.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.engines.cluster import ROOT, Cluster
from tests.servers import http_server
from tests.training.shards import samples, write_tar

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("new_interpreters"),
]
SECRET = "s3cr3tw0rd"


def test_no_log_of_ray_has_a_secret_of_a_url_and_no_name_of_a_file_is_run(
    tmp_path: Path, cluster: Cluster
):
    tar = write_tar(tmp_path / "pipe:touch PWNED #.tar", samples(0, 4)).read_bytes()
    with http_server({"0.tar": tar}) as (url, _):
        host = url.partition("://")[2].partition("/")[0]
        named = [f"http://me:{SECRET}@{host}/0.tar", f"http://{host}/missing.tar?token={SECRET}"]
        named.append("*.tar")
        words = ["measure", *named, "-o", str(tmp_path / "out"), "--scores", "width,blur"]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "wdsflow",
                *words,
                "--engine",
                "ray",
                "--address",
                cluster.address,
            ],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "missing.tar" in done.stdout + done.stderr
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 2, done
    assert SECRET not in done.stdout + done.stderr
    logs = [path for path in Path(cluster.folder).rglob("*") if path.is_file()]
    assert any("worker" in path.name for path in logs)
    assert [path for path in logs if SECRET.encode() in path.read_bytes()] == []
    folders = (tmp_path, Path(cluster.folder))
    made = [path for folder in folders for path in folder.rglob("PWNED*")]
    assert [*made, *ROOT.glob("PWNED*")] == []
