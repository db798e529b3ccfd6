"""Which urls webdataset opens."""

import importlib

import pytest

from wdsflow.readers.url_schemes import (
    SCHEMES_02,
    SCHEMES_1,
    as_pipe,
    why_not_opened_by_webdataset_02,
    why_not_opened_by_webdataset_1,
)
from wdsflow.shards.shard import Shard


@pytest.mark.webdataset
def test_the_schemes_are_those_of_the_installed_webdataset() -> None:
    import webdataset

    known = set(importlib.import_module("webdataset.gopen").gopen_schemes) - {"__default__"}

    assert known == (SCHEMES_02 if webdataset.__version__.startswith("0.") else SCHEMES_1)


def test_files_and_urls_with_a_handler_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOPEN_REWRITE", raising=False)
    monkeypatch.delenv("USE_AIS_FOR", raising=False)
    shards = [
        Shard.file("s/0.tar"),
        Shard.url("https://host/0.tar"),
        Shard.command("pipe:cat 0.tar"),
    ]

    assert [why_not_opened_by_webdataset_02(shard) for shard in shards] == ["", "", ""]
    hub = Shard.url("hf://datasets/org/set/0.tar")
    assert why_not_opened_by_webdataset_1(hub) == ""
    assert why_not_opened_by_webdataset_02(hub) == "webdataset opens no hf: urls"
    quoted = Shard.url("https://host/it's.tar")
    assert "between single quotes into a shell command" in why_not_opened_by_webdataset_02(quoted)
    assert why_not_opened_by_webdataset_1(quoted) == ""
    # It opens other urls than it is given.
    monkeypatch.setenv("GOPEN_REWRITE", "https://host=/data")
    assert [why_not_opened_by_webdataset_02(shard) for shard in (hub, quoted)] == ["", ""]


def test_no_command_is_made_of_names_that_a_shell_would_not_take_as_they_are() -> None:
    assert as_pipe("s3://bucket/a b.tar") == ""
    assert as_pipe("s3://bucket/$(id).tar") == ""
    assert as_pipe("s3a://bucket/{0..3}.tar") == "pipe:aws s3 cp s3://bucket/{0..3}.tar -"
    assert as_pipe("hf://datasets/o/s@dev/x.tar").endswith(
        "https://huggingface.co/datasets/o/s/resolve/dev/x.tar"
    )
