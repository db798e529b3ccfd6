"""Shards on the Hugging Face hub, by its own client, with a hub and a storage on loopback."""

import filecmp
import hashlib
import json
import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("huggingface_hub")
from huggingface_hub import HfFileSystem, constants

from tests.cli.commands import report, run
from tests.filtering.shards import write_shards
from tests.hub_server import TOKEN, hub_server
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source import hub as urls_of_hub
from wdsflow.shards.source import retries as faults
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.urls import NoShards, expand
from wdsflow.shards.written_names import compact_patterns

SET = "hf://datasets/org/set"
WHERE = ("--where", "min_side >= 200 and caption_words >= 2")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    write_shards(folder / "set")
    files = {
        f"set/{path.name}": path.read_bytes() for path in sorted((folder / "set").glob("*.tar"))
    }
    with hub_server() as hub:
        hub.commit(
            "datasets/org/set", {**files, "README.md": b"a set", "set/notes.txt": b"no shard"}
        )
        hub.commit("datasets/org/private", files, who="readers")
        hub.commit("datasets/org/gated", files, who="members")
        hub.buckets["org/bucket"] = {name: files[name] for name in files}
        yield folder, hub, files


@pytest.fixture
def hub(served, monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(constants, "ENDPOINT", served[1].url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    clear(served[1])
    forget()
    return served


def forget():
    urls_of_hub._commit.cache_clear()
    HfFileSystem.clear_instance_cache()


def clear(hub):
    hub.log.clear()
    hub.storage.clear()


def resolved(server):
    return [asked for asked in server.log.asked if "/resolve/" in asked.path]


def test_patterns_become_urls_of_one_commit_by_one_listing(hub):
    server = hub[1]
    commit = server.repositories["datasets/org/set"].branches["main"]
    shards = [f"{SET}@{commit}/set/0000{number}.tar" for number in range(3)]
    for pattern in ("{00000..00002}.tar", "*.tar", "", "0000[0-2].tar"):
        assert expand(f"{SET}/set/{pattern}", allow_pipe=True).urls == shards
        assert expand(f"{SET}@main/set/{pattern}", allow_pipe=True).urls == shards
    clear(server)
    assert expand(f"{SET}@{commit}/set/{{00000..00002}}.tar", allow_pipe=True).urls == shards
    assert not server.log.asked
    assert compact_patterns(shards * 2, most=2) == [f"{SET}@{commit}/set/{{00000..00002}}.tar"] * 2
    assert expand("hf://buckets/org/bucket/set/", allow_pipe=True).urls == [
        f"hf://buckets/org/bucket/set/0000{n}.tar" for n in range(3)
    ]
    for nothing in (f"{SET}/none/*.tar", SET, "hf://buckets/org/bucket/none/"):
        with pytest.raises(NoShards) as caught:
            expand(nothing, allow_pipe=True)
        assert caught.value.hint


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["names", "full"])
def test_validate_reports_of_a_repository_what_it_reports_of_the_folder(hub, capsys, level):
    words = ("--format", "json", "--level", level, "--jobs", 1)
    there, here = run("validate", f"{SET}/set/*.tar", *words), report(capsys)
    assert run("validate", hub[0] / "set", *words) == there
    local = report(capsys)
    assert here["samples"] == local["samples"] == 60
    codes = [finding["code"] for finding in here["findings"]]
    assert "P332" in codes  # OpenCLIP needs a command to read these urls
    assert [code for code in codes if code != "P332"] == [
        finding["code"] for finding in local["findings"]
    ]


def test_filter_keeps_what_it_keeps_of_the_folder_and_resumes(hub, tmp_path):
    server = hub[1]
    for name, source in (("there", f"{SET}/set/"), ("here", hub[0] / "set")):
        assert run("filter", source, "-o", tmp_path / name, *WHERE, "--jobs", 0) == 0
    names = sorted(path.name for path in (tmp_path / "there").glob("*.tar"))
    assert filecmp.cmpfiles(tmp_path / "there", tmp_path / "here", names, shallow=False) == (
        names,
        [],
        [],
    )
    assert len(names) == 3
    clear(server)
    commit = server.repositories["datasets/org/set"].branches["main"]
    # All is done.
    assert run("filter", f"{SET}@{commit}/set/", "-o", tmp_path / "there", *WHERE, "--jobs", 0) == 0
    assert not resolved(server)
    assert server.storage.asked == []


def test_a_commit_that_comes_later_changes_nothing_that_is_read(hub):
    server, files = hub[1:]
    first = server.commit("datasets/org/moving", {"a.tar": files["set/00000.tar"]})
    [url] = expand("hf://datasets/org/moving/*.tar", allow_pipe=True).urls
    server.commit("datasets/org/moving", {"a.tar": files["set/00001.tar"]})
    assert first in url
    assert expand("hf://datasets/org/moving/a.tar", allow_pipe=True).urls == [url]
    with open_source(single_shard(url)) as source:
        assert source.read_at(0, 1 << 20) == files["set/00000.tar"]
    forget()
    assert expand("hf://datasets/org/moving/a.tar", allow_pipe=True).urls != [url]


def test_a_shard_costs_one_request_to_the_hub_and_another_when_its_address_has_expired(
    hub, monkeypatch
):
    server = hub[1]
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    data = bytes(range(256)) * 40_000
    server.commit("datasets/org/large", {"a.tar": data}, who="readers")
    [url] = expand("hf://datasets/org/large/a.tar", allow_pipe=True).urls
    seen, expired = [], []
    clear(server)

    def twist(asked, answer):
        seen.append(asked)
        if expired:
            answer.status = expired.pop()

    server.storage.twist = twist
    with open_source(single_shard(url)) as source:
        for offset in (0, 5_000_000, 1_000, 9_000_000, 3_000_000):
            assert source.read_at(offset, 5_000) == data[offset : offset + 5_000]
        assert len(resolved(server)) == 1
        assert len(seen) > 4
        expired.append(403)
        assert source.read_at(7_000_000, 5_000) == data[7_000_000:7_005_000]
        assert len(resolved(server)) == 2
    assert not server.tokens_at_storage


def test_marks_are_known_without_reading_and_change_with_the_contents_only(hub):
    server, files = hub[1:]
    url, data = "hf://datasets/org/marked/a.tar", files["set/00000.tar"]
    server.commit("datasets/org/marked", {"a.tar": data})
    clear(server)
    before = input_identity(single_shard(url))
    assert before == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    server.commit("datasets/org/marked", {"a.tar": data, "README.md": b"new"})
    assert input_identity(single_shard(url)) == before
    server.commit("datasets/org/marked", {"a.tar": files["set/00001.tar"]})
    assert input_identity(single_shard(url)) != before
    assert not server.storage.asked
    assert not any("/tree/" in asked.path for asked in server.log.asked)
    assert set(input_identity(single_shard("hf://buckets/org/bucket/set/00000.tar"))) == {
        "size",
        "xet_hash",
    }


@pytest.mark.parametrize(
    ("url", "token", "kind", "text"),
    [
        (
            "hf://datasets/org/private/set/00000.tar",
            "",
            "denied",
            "private and your token cannot read it.*: hf auth login$",
        ),
        ("hf://datasets/org/private/set/00000.tar", "hf_wrong", "denied", ": hf auth login$"),
        ("hf://datasets/org/none/set/00000.tar", "", "denied", "does not exist, or it is private"),
        (
            "hf://datasets/org/none/set/00000.tar",
            TOKEN,
            "missing",
            "does not exist, or it is private",
        ),
        (
            "hf://datasets/org/gated/set/00000.tar",
            "",
            "denied",
            "gated: ask for it on the page of .*: hf auth login$",
        ),
        ("hf://datasets/org/gated/set/00000.tar", TOKEN, "denied", "gated: ask for it on the page"),
        (
            "hf://datasets/org/set@none/set/00000.tar",
            "",
            "missing",
            "no such branch, tag or commit",
        ),
        ("hf://datasets/org/set/set/none.tar", "", "missing", "no such file at this revision"),
        ("hf://buckets/org/none/00000.tar", "", "missing", "does not exist"),
        ("hf://datasets/org", "", "refused", "hf://datasets/ORGANIZATION/NAME/FILE"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(hub, monkeypatch, url, token, kind, text):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(SourceError, match=text) as caught:
        open_source(single_shard(url))
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)
    if "/gated/" not in url and "none.tar" not in url:  # their names may be listed
        with pytest.raises(NoShards) as refused:
            expand(f"{url.rpartition('/')[0]}/", allow_pipe=True)
        assert "no shards match" in str(refused.value)


def test_a_private_set_is_read_with_a_token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    [first, *_] = expand("hf://datasets/org/private/set/*.tar", allow_pipe=True).urls
    with open_source(single_shard(first)) as source:
        assert source.read_at(0, 1 << 20) == hub[2]["set/00000.tar"]


def test_a_hub_that_limits_requests_is_asked_again_when_it_says(hub):
    server, refusals = hub[1], [{"Retry-After": "1"}, {"RateLimit": '"resolvers";r=0;t=0'}]
    times = []

    def limited(asked, answer):
        times.append(time.monotonic())
        if refusals:
            answer.status, answer.headers = 429, refusals.pop(0)

    server.log.twist = limited
    with open_source(single_shard(f"{SET}/set/00000.tar")) as source:
        assert source.read_at(0, 512) == hub[2]["set/00000.tar"][:512]
    assert len(times) == 3
    assert times[1] - times[0] >= 1
    refusals.append({"Retry-After": "3600"})
    with pytest.raises(SourceError, match=r"limits requests .*: hf auth login"):
        open_source(single_shard(f"{SET}/set/00000.tar"))
    assert len(times) == 4


def test_connections_that_are_cut_cost_nothing(hub, capsys):
    server, broken = hub[1], []

    def cut(asked):
        if len(broken) < 3:
            broken.append(asked)
            return 100
        return None

    server.log.cut = lambda asked: cut(asked) if "/resolve/" in asked.path else None
    server.storage.cut = cut
    assert (
        run("validate", f"{SET}/set/00000.tar", "--format", "json", "--level", "full", "--jobs", 1)
        == 0
    )
    assert len(broken) == 3
    assert report(capsys)["samples"] == 20


def test_an_object_of_a_bucket_that_is_replaced_is_never_read_as_one(hub):
    server = hub[1]
    old = bytes(range(256)) * 40_000
    server.buckets["org/changing"] = {"a.tar": old}
    server.keep({"a.tar": old, "b.tar": old[::-1]})
    with open_source(single_shard("hf://buckets/org/changing/a.tar")) as source:
        server.buckets["org/changing"]["a.tar"] = old[::-1]
        # By the address of the old one.
        assert source.read_at(4_000_000, 100) == old[4_000_000:4_000_100]
        del server.stored[hashlib.sha256(old).hexdigest()]
        with pytest.raises(SourceError, match="it changed while it was read"):
            source.read_at(8_000_000, 100)


def test_a_hub_out_of_reach_is_named(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    for ask in (open_source, input_identity):
        with pytest.raises(SourceError, match=r"the hub cannot be reached .*HF_ENDPOINT"):
            ask(single_shard(f"{SET}/set/00000.tar"))
    with pytest.raises(NoShards) as caught:
        expand(f"{SET}/set/*.tar", allow_pipe=True)
    assert "the hub cannot be reached" in caught.value.hint
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError, match=r"HF_HUB_OFFLINE is set: unset HF_HUB_OFFLINE$"):
        open_source(single_shard(f"{SET}/set/00000.tar"))


@pytest.mark.deep
def test_scores_hold_after_a_commit_that_changes_other_files(hub, tmp_path, capsys):
    server, files = hub[1:]
    server.commit("datasets/org/scored", files)
    url = "hf://datasets/org/scored/set/"
    assert (
        run(
            "measure",
            url,
            "-o",
            tmp_path / "scores",
            "--scores",
            "min_side,caption_words",
            "--jobs",
            0,
        )
        == 0
    )
    server.commit("datasets/org/scored", {**files, "README.md": b"about"})
    forget()
    assert (
        run(
            "filter",
            url,
            "-o",
            tmp_path / "cut",
            "--ledger",
            tmp_path / "scores",
            *WHERE,
            "--jobs",
            0,
        )
        == 0
    )
    server.commit("datasets/org/scored", {**files, "set/00001.tar": files["set/00002.tar"]})
    forget()
    capsys.readouterr()
    assert (
        run(
            "filter",
            url,
            "-o",
            tmp_path / "again",
            "--ledger",
            tmp_path / "scores",
            *WHERE,
            "--jobs",
            0,
        )
        == 1
    )
    told = capsys.readouterr()
    assert "00001.tar" in told.out + told.err


@pytest.mark.deep
def test_several_workers_list_once_and_need_only_the_environment(hub, tmp_path):
    clear(hub[1])
    settings = {
        **os.environ,
        "HF_ENDPOINT": hub[1].url,
        "HF_HOME": str(tmp_path),
        "PYTHONWARNINGS": "",
    }
    words = [
        sys.executable,
        "-m",
        "wdsflow",
        "validate",
        f"{SET}/set/*.tar",
        "--format",
        "json",
        "--jobs",
        "3",
    ]
    done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples"] == 60
    listings = [
        asked for asked in hub[1].log.asked if "/tree/" in asked.path and "cursor" not in asked.path
    ]
    assert len({asked.path for asked in listings}) == len(listings)


@pytest.mark.deep
def test_the_training_feed_gives_the_same_batches_from_the_hub(hub):
    pytest.importorskip("open_clip_train")
    import open_clip

    from tests.training.shards import arguments, as_text, texts
    from wdsflow import FeedOptions
    from wdsflow.training import get_wds_dataset

    def batches(data):
        args = arguments(
            train_data=data, val_data=data, train_num_samples=60, workers=1, batch_size=5
        )
        preprocess = open_clip.image_transform(32, is_train=False)
        options = FeedOptions(status_every=0.0, decoders=1)
        loader = get_wds_dataset(
            args, preprocess, False, tokenizer=as_text, options=options
        ).dataloader
        return [(batch[0].numpy().tobytes(), texts(batch)) for batch in loader]

    found = batches(f"{SET}/set/{{00000..00002}}.tar")
    assert sum(len(words) for _, words in found) == 60
    assert found == batches(str(hub[0] / "set" / "{00000..00002}.tar"))
