"""webdataset, 0.2 and 1.x, reads urls by wdsflow's reader."""

import gzip
import importlib
import time
from typing import Any

import pytest

import wdsflow
from tests.servers import http_server
from tests.shards.archives import JPEG, tar_bytes
from wdsflow.readers.gopen import SCHEMES
from wdsflow.readers.url_schemes import (
    why_not_opened_by_webdataset_02,
    why_not_opened_by_webdataset_1,
)
from wdsflow.shards.shard import Shard
from wdsflow.shards.source import retries as faults

pytest.importorskip("aiohttp")
webdataset = pytest.importorskip("webdataset")
gopen_module: Any = importlib.import_module("webdataset.gopen")

pytestmark = pytest.mark.webdataset

KEYS = [f"{number:04}" for number in range(150)]
MEMBERS = [
    (f"{key}.{kind}", data)
    for key in KEYS
    for kind, data in (("jpg", JPEG * 700), ("txt", key.encode()))
]
TAR = tar_bytes(MEMBERS)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(gopen_module, "gopen_schemes", dict(gopen_module.gopen_schemes))
    wdsflow.register_gopen()


def keys_of(url: str) -> list[str]:
    samples = list(webdataset.WebDataset([url], shardshuffle=False))
    assert all(sample["jpg"] == JPEG * 700 for sample in samples)
    assert [sample["txt"].decode() for sample in samples] == [
        sample["__key__"] for sample in samples
    ]
    return [sample["__key__"] for sample in samples]


@pytest.mark.parametrize("ranges", [True, False], ids=["parts", "stream"])
def test_a_connection_that_breaks_is_resumed(ranges: bool) -> None:
    with http_server({"0.tar": TAR}, ranges=ranges) as (url, log):
        # Every second answer ends after 100 KB.
        log.cut = lambda asked: 100_000 if len(log.asked) % 2 else None
        assert keys_of(f"{url}/0.tar") == KEYS
        assert any(asked.sent == 100_000 for asked in log.asked)


def test_bytes_are_those_that_are_stored() -> None:
    packed = gzip.compress(TAR, 1)
    with http_server({"0.tar.gz": packed}) as (url, _):
        with gopen_module.gopen(f"{url}/0.tar.gz") as file:
            assert file.read(7) == packed[:7]
            assert file.read() == packed[7:]
        assert keys_of(f"{url}/0.tar.gz") == KEYS


def test_what_is_not_there_is_an_error_that_names_it() -> None:
    with http_server({}) as (url, _), pytest.raises(OSError, match="404") as raised:
        gopen_module.gopen(f"{url}/none.tar")
    assert f"{url}/none.tar" in str(raised.value)


def test_a_file_that_is_replaced_while_it_is_read_is_an_error() -> None:
    with http_server({"0.tar": TAR}) as (url, log):

        def replaced(asked: Any, answer: Any) -> None:
            if len(log.asked) > 1:
                answer.headers["ETag"] = '"another"'

        log.twist = replaced
        with pytest.raises(OSError, match="ETag"):
            keys_of(f"{url}/0.tar")


def test_a_second_call_changes_nothing_and_other_schemes_stay() -> None:
    before = dict(gopen_module.gopen_schemes)
    wdsflow.register_gopen()
    assert gopen_module.gopen_schemes == before
    assert set(SCHEMES) <= set(before)
    assert before["pipe"].__module__ == "webdataset.gopen"


def test_writing_is_left_to_the_handler_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"wdsflow only reads them: s3://bucket/0\.tar"):
        gopen_module.gopen("s3://bucket/0.tar", "wb")
    with pytest.raises(ValueError, match="only reads them") as refused:
        gopen_module.gopen("s3://user:word@bucket/0.tar", "wb")
    assert "word" not in str(refused.value)
    written: list[str] = []

    def write(url: str, mode: str, bufsize: int) -> None:
        written.append(f"{mode} {url}")

    monkeypatch.setattr(gopen_module, "gopen_schemes", {"gs": write, "__default__": write})
    wdsflow.register_gopen()
    gopen_module.gopen("gs://bucket/0.tar", "wb")
    assert written == ["wb gs://bucket/0.tar"]


def test_the_validator_knows() -> None:
    shard = Shard.url("s3://bucket/it's.tar")
    assert why_not_opened_by_webdataset_02(shard) == why_not_opened_by_webdataset_1(shard) == ""
    gopen_module.gopen_schemes.pop("s3")
    assert why_not_opened_by_webdataset_02(shard) == "webdataset opens no s3: urls"


def test_a_cache_keeps_shards(tmp_path) -> None:
    with http_server({"0.tar": TAR, "1.tar": TAR}) as (url, log):
        wdsflow.register_gopen(cache=tmp_path, cache_size=len(TAR) + 1)
        for number in (0, 0, 1, 1):
            assert keys_of(f"{url}/{number}.tar") == KEYS
            while list(tmp_path.rglob("*.part")):
                time.sleep(0.01)
        # The server counts a byte after it was sent.
        while log.sent("1.tar") <= len(TAR):
            time.sleep(0.01)
        # Each once, and one byte; the second has replaced the first.
        assert [log.sent("0.tar"), log.sent("1.tar")] == [len(TAR) + 1] * 2
        assert len(list(tmp_path.rglob("*.shard"))) == 1
        wdsflow.register_gopen()
        assert keys_of(f"{url}/1.tar") == KEYS
        assert log.sent("1.tar") == 2 * len(TAR) + 1
    with pytest.raises(ValueError, match="a cache is a folder and a size"):
        wdsflow.register_gopen(cache=tmp_path)
