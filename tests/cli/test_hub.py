"""Shards on the Hugging Face hub, by its own client, with a hub and a storage on loopback."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("huggingface_hub")
from huggingface_hub import HfFileSystem, constants

from tests.filtering.shards import write_shards
from tests.hub_server import TOKEN, hub_server
from wdsflow.cli.main import main
from wdsflow.shards.shard_identity import input_identity, stored
from wdsflow.shards.source import http as faults
from wdsflow.shards.source import hub as urls_of_hub
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.urls import NoShards, compact, expand

SET = "hf://datasets/org/set"
WHERE = ("--where", "min_side >= 200 and caption_words >= 2")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    write_shards(folder / "set")
    files = {f"set/{path.name}": path.read_bytes() for path in sorted((folder / "set").glob("*.tar"))}
    with hub_server() as hub:
        hub.commit("datasets/org/set", {**files, "README.md": b"a set", "set/notes.txt": b"no shard"})
        hub.commit("datasets/org/private", files, who="readers")
        hub.commit("datasets/org/gated", files, who="members")
        hub.buckets["org/bucket"] = {name: files[name] for name in files}
        yield folder, hub, files


@pytest.fixture
def hub(served, monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(constants, "ENDPOINT", served[1].url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    forget()
    return served


def forget():
    urls_of_hub._commit.cache_clear()
    HfFileSystem.clear_instance_cache()


def clear(hub):
    hub.log.clear()
    hub.storage.clear()


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_try(hub):
    folder, server, files = hub
    commit = server.repositories["datasets/org/set"].branches["main"]
    clear(server)
    for pattern in ("{00000..00002}.tar", "*.tar", "", "0000[0-2].tar"):
        print(expand(f"{SET}/set/{pattern}"))
    for asked in server.log.asked:
        print(asked)
    clear(server)
    with open_source(f"{SET}@{commit}/set/00000.tar") as source:
        print(source.read_at(0, 512)[:20], source.size)
        source.read_at(source.size-1000, 10)
    print(input_identity(f"{SET}/set/00000.tar"), stored("hf://buckets/org/bucket/set/00000.tar"))
    for asked in server.log.asked + server.storage.asked:
        print(asked)
    print(expand("hf://buckets/org/bucket/set/"))
    for url in ("hf://datasets/org/private/set/00000.tar", "hf://datasets/org/gated/set/00000.tar", "hf://datasets/org/none/set/00000.tar","hf://datasets/org/set@none/set/00000.tar","hf://datasets/org/set/set/none.tar", "hf://datasets/org", "hf://buckets/org/none/x.tar"):
        for what in (open_source, input_identity, expand):
            try: print(what.__name__, what(url))
            except (SourceError, NoShards) as e: print(what.__name__, url, "=>", getattr(e, "hint", ""), e)
