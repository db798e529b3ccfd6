"""Certificates of shards on servers: http with and without parts, compressed, and S3."""

import gzip
import json
from hashlib import sha256

import pytest

from tests.cli import shards
from tests.cli.test_verify import flip, run
from tests.servers import http_server, put, s3_server
from wdsflow.shards.certificate import load
from wdsflow.shards.source import http as faults

pytest.importorskip("aiohttp")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))


def files_of(folder, count=3):
    shards.with_txt(folder, shards=count)
    large = {
        f"{n}.{kind}": data for n in range(4) for kind, data in (("jpg", shards.jpeg() + bytes(900_000)), ("txt", b"a"))
    }
    shards.write(folder / "0002.tar", large)  # most of it is skipped by the scan
    return {f"{number:04d}.tar": (folder / f"{number:04d}.tar").read_bytes() for number in range(count)}


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["names", "headers"])
@pytest.mark.parametrize("ranges", [True, False])
def test_shards_on_a_web_server_are_hashed_while_they_are_scanned(tmp_path, capsys, ranges, level):
    files = files_of(tmp_path)
    files["0001.tar"] = gzip.compress(files["0001.tar"], mtime=0)
    file = tmp_path / "c.json"
    with http_server(files, ranges=ranges) as (url, log):
        pattern = f"{url}/{{0000..0002}}.tar"
        # one process: what is asked can be counted, and each byte is sent once
        assert run("validate", pattern, "--jobs", "1", "--level", level, "--ignore", "W,F,I", "--certify", file) == 0
        found = load(file)
        assert found.folder == f"{url}/"
        assert {name: shard.sha256 for name, shard in found.shards.items()} == {
            name: sha256(data).digest() for name, data in files.items()
        }
        for name, data in files.items():
            if ranges:
                assert len(data) <= log.sent(name) <= len(data) + 20_000, name
        assert run("verify", file) == 0
        assert "added shards were not looked for" in capsys.readouterr().out
        assert run("verify", file, url, "--full") == 0
        files["0000.tar"] = bytes([files["0000.tar"][0] ^ 1]) + files["0000.tar"][1:]
        del files["0001.tar"]
        for words in ([], ["--full"]):
            capsys.readouterr()
            assert run("verify", file, *words, "--json") == 1
            tree = json.loads(capsys.readouterr().out)
            assert [each["name"] for each in tree["changed" if words else "unknown"]] == ["0000.tar"]
            assert [each["name"] for each in tree["missing"]] == ["0001.tar"]


@pytest.mark.deep
def test_the_query_of_a_url_is_in_no_certificate_and_may_differ_later(tmp_path):
    files = files_of(tmp_path)
    file = tmp_path / "c.json"
    with http_server(files) as (url, _):
        assert run("validate", f"{url}/0000.tar?secret=1", f"{url}/0001.tar?secret=1", "--certify", file) == 0
        assert "secret" not in file.read_text()
        assert run("verify", file, f"{url}/0000.tar?secret=2", f"{url}/0001.tar?secret=2", "--full") == 0


@pytest.mark.deep  # the server takes long to start
def test_a_local_set_that_is_copied_to_s3_is_verified_there(tmp_path, capsys, monkeypatch):
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()  # connected to a server of other tests
    pytest.importorskip("moto")
    files = files_of(tmp_path)
    file = tmp_path / "c.json"
    assert run("validate", tmp_path, "--ignore", "W,F,I", "--certify", file) == 0
    with s3_server() as (url, port, _):
        settings = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1", "ENDPOINT_URL": url}
        for name, value in {**settings, "CONFIG_FILE": "/none", "EC2_METADATA_DISABLED": "true"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        put(port, "bucket", b"")
        for name, data in files.items():
            put(port, f"bucket/set/{name}", data)
        assert run("verify", file, "s3://bucket/set/") == 1  # an ETag says nothing of a time of change
        assert "it is stored elsewhere now" in capsys.readouterr().out
        assert run("verify", file, "s3://bucket/set", "--full") == 0
        there = tmp_path / "s3.json"
        assert run("validate", "s3://bucket/set/", "--ignore", "W,F,I", "--certify", there) == 0
        assert load(there).root == load(file).root  # wherever they are stored
        assert run("verify", there) == 0
        flip(tmp_path / "0000.tar", 700)
        put(port, "bucket/set/0000.tar", (tmp_path / "0000.tar").read_bytes())
        put(port, "bucket/set/0009.tar", files["0001.tar"])
        capsys.readouterr()
        for words in ([], ["--full"]):
            assert run("verify", there, *words, "--json") == 1
            tree = json.loads(capsys.readouterr().out)
            assert [each["name"] for each in tree["changed" if words else "unknown"]] == ["0000.tar"]
            assert [each["name"] for each in tree["added"]] == ["0009.tar"]
