"""wdsflow.feed with a cache yields the same batches.

It downloads no more than an optimal cache would.
"""

import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.filtering.commands import run
from tests.servers import Answer, Log, http_server, put, s3_server, use_s3
from tests.shards.cache.minimum import downloads_by_recency, fewest_downloads
from tests.training.shards import arguments, as_text, plain, samples, texts, write_tar
from tests.training.subsets import members as subset_members
from tests.training.test_feed_remote import feed, keys, served
from tests.training.trainings import command, write_data
from wdsflow import FeedOptions
from wdsflow import feed as make
from wdsflow.shards.cache.shard_cache import ShardCache
from wdsflow.shards.shard import Shard
from wdsflow.stages import StageError
from wdsflow.training.feed.catalog.listing import list_samples
from wdsflow.training.feed_options import FeedError
from wdsflow.training.sample_tasks import Blob, SampleRef
from wdsflow.training.workers.sample_members import OpenShards, read_members

SHARDS, SAMPLES, EPOCHS = 20, 10, 4
SIZES = {f"{number:04d}.tar": SAMPLES for number in range(SHARDS)}
# Kill plans of the deep run.
PLANS = int(os.environ.get("WDSFLOW_KILLS", "50"))


def tar_bytes(log) -> int:
    return sum(each.sent for each in log.asked if each.path.endswith(".tar"))


def opened(log) -> list[str]:
    """Return the shards that were requested, in order, each once."""
    return list(dict.fromkeys(each.path for each in log.asked if each.path.endswith(".tar")))


@pytest.mark.parametrize(
    "share",
    [0.5, *(pytest.param(share, marks=pytest.mark.deep) for share in (0.0, 0.25, 0.9, 1.0))],
)
def test_a_later_epoch_downloads_what_there_is_no_room_for(tmp_path, share):
    with served(tmp_path, [SAMPLES] * SHARDS, 20_000, **{"sizes.json": SIZES}) as (url, log):
        size = (tmp_path / "0.tar").stat().st_size
        room = round(share * SHARDS)
        plain = feed(url)
        expected = [keys(plain) for _ in range(EPOCHS)]
        one = feed(url, cache=tmp_path / "cache", cache_size=room * size + size // 2)
        uses, downloaded = [], []
        for epoch in range(EPOCHS):
            log.clear()
            assert keys(one) == expected[epoch]
            uses += opened(log)
            downloaded.append(tar_bytes(log) / size)
            time.sleep(0.1)
        one.close()
    assert len(uses) == EPOCHS * SHARDS
    for count in downloaded[1:]:
        assert count == pytest.approx(SHARDS - room, abs=0.1)
    best = sum(fewest_downloads(uses, room))
    assert best - 0.1 <= sum(downloaded) <= best + 1.1
    assert sum(downloads_by_recency(uses, room)) >= best


def contents(batches) -> dict[str, str]:
    """Return the digest of each sample, by its key; each comes once."""
    given = [
        (key, hashlib.sha256(data).hexdigest())
        for datas, of_batch in batches
        for data, key in zip(datas, of_batch, strict=True)
    ]
    assert len(dict(given)) == len(given)
    return dict(given)


def test_a_shard_is_not_listed_again_once_it_is_here(tmp_path, monkeypatch):
    with served(tmp_path, [20] * 6, 20_000, **{"sizes.json": {}}) as (url, _):
        one = feed(url, cache=tmp_path / "cache", cache_size="1GB")
        first = contents(one)
        while list((tmp_path / "cache").rglob("*.part")):
            time.sleep(0.01)
        listed = []

        def noting(shard, *given, **named):
            listed.append(shard)
            return list_samples(shard, *given, **named)

        monkeypatch.setattr("wdsflow.training.feed.catalog.sample_catalog.list_samples", noting)
        assert contents(one) == first
        one.close()
    assert len(first) == 120
    assert listed == []


def removed(path: Path) -> None:
    path.unlink()


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [removed, halved])
@pytest.mark.parametrize("decoders", ["threads", pytest.param("processes", marks=pytest.mark.deep)])
def test_samples_of_a_file_that_is_lost_come_from_the_server(tmp_path, caplog, decoders, damage):
    options = FeedOptions(status_every=0.0, decode_in=decoders, decoders=2)
    with served(tmp_path, [20] * 9, 20_000) as (url, log):
        # Many small batches: the few that are read ahead are not the whole epoch.
        one = feed(url, batch_size=2, cache=tmp_path / "cache", cache_size="1GB", options=options)
        expected = contents(one)
        assert len(expected) == 180
        # Decoders read files themselves if all are whole when an epoch begins.
        while len(list((tmp_path / "cache").rglob("*.shard"))) < 9:
            time.sleep(0.01)
        log.clear()
        batches = iter(one)
        given = contents([next(batches)])
        for path in (tmp_path / "cache").rglob("*.shard"):
            damage(path)
        given |= contents(batches)
        one.close()
    assert given == expected
    assert tar_bytes(log) > 20_000
    warned = "cannot be read and is removed, its shard is read from http://" in caplog.text
    assert warned == (damage is halved and decoders == "threads")
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("*.tar")}
    kept = list((tmp_path / "cache").rglob("*.shard"))
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in kept} <= hashes


def test_another_version_of_the_same_size_has_its_own_samples(tmp_path):
    first = [(f"{number:03d}.bin", bytes([number]) * (900 * number + 1)) for number in range(8)]
    tars = [
        write_tar(tmp_path / name, members).read_bytes()
        for name, members in (("0.tar", first), ("1.tar", first[::-1]))
    ]
    assert len(tars[0]) == len(tars[1])
    files = {"0.tar": tars[0]}
    with http_server(files) as (url, _):
        one = feed(f"{url}/0.tar", cache=tmp_path / "cache", cache_size="1GB")
        expected = contents(one)
        assert len(expected) == 8
        assert contents(one) == expected
        files["0.tar"] = tars[1]
        assert [contents(one) for _ in range(2)] == [expected] * 2
        one.close()


def test_a_subset_with_a_join_is_read_from_the_cache_as_from_a_folder(tmp_path):
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", subset_members(number, 16))
    scored = run("measure", tmp_path, "-o", tmp_path / "scored", "--scores", "width", "--jobs", 0)
    assert scored.status == 0
    files = {path.name: path.read_bytes() for path in tmp_path.glob("*.tar")}
    table = tmp_path / "captions.csv"
    names = [f"{shard:03d}{number:04d}" for shard in range(3) for number in range(16)]
    table.write_text("\n".join(["key,caption", *(f"{key},caption of {key}" for key in names)]))

    def epochs(url: str, ledger: Path, **cache) -> list[list[tuple[Any, ...]]]:
        options = FeedOptions(status_every=0.0, decode_in="threads", decoders=2)
        one = make(
            f"{url}/{{0..2}}.tar",
            batch_size=4,
            fields=("jpg", "txt", "__key__"),
            options=options,
            ledger=ledger,
            where="width == 64",
            join=str(table),
            join_set={"txt": "caption"},
            **cache,
        )
        given = [[(images.tolist(), *more) for images, *more in one] for _ in range(3)]
        one.close()
        return given

    expected = epochs(str(tmp_path), tmp_path / "scored")
    samples = [key for batch in expected[2] for key in batch[2]]
    assert len(samples) == 12
    with http_server(files) as (url, log):
        again = tmp_path / "again"
        words = ("measure", f"{url}/{{0..2}}.tar", "-o", again, "--scores", "width", "--jobs", 0)
        assert run(*words).status == 0
        cache = {"cache": tmp_path / "cache", "cache_size": "1GB"}
        assert epochs(url, again, **cache) == expected
        log.clear()
        assert epochs(url, again, **cache) == expected
        # Versions only.
        assert tar_bytes(log) < 1_000


def test_a_file_that_another_run_removed_is_read_from_the_server_if_that_has_the_version(tmp_path):
    tar = write_tar(tmp_path / "0.tar", [("a.jpg", b"an image"), ("a.txt", b"a cat")])
    files = {"0.tar": tar.read_bytes()}
    with http_server(files) as (url, _):
        shard = Shard.url(f"{url}/0.tar")
        cache = ShardCache(tmp_path / "cache", 10**9)
        cache.begin_epoch(cache.new_plan(), [], 0)
        with cache.open(shard) as source:
            source.read_at(0, source.length)
        with cache.open(shard) as source:
            stored_at = source.stored_at
        os.unlink(stored_at)
        members = Blob("jpg", 8, 512), (Blob("txt", 5, 1536),)
        ref = SampleRef(shard, "a", *members, stored_at=stored_at)
        read = partial(read_members, ref, OpenShards(), 100, lambda blob: 100)
        assert read() == (b"an image", {"txt": b"a cat"})
        # It cannot be opened, as where too many files are open: that is no reason to remove it.
        os.symlink(stored_at, stored_at)
        assert read() == (b"an image", {"txt": b"a cat"})
        assert os.path.islink(stored_at)
        files["0.tar"] += bytes(512)
        with pytest.raises(StageError, match="its server has another version"):
            read()


@pytest.mark.parametrize(
    "resampled", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["shuffled", "resampled"]
)
def test_strict_orders_stay_and_are_foreseen(tmp_path, resampled):
    get_data = pytest.importorskip("wdsflow.training.openclip").get_data
    files = {
        f"{number:04d}.tar": write_tar(
            tmp_path / f"{number}.tar", [*samples(number, 8), ("pad.bin", bytes(600_000))]
        ).read_bytes()
        for number in range(8)
    }
    size = len(files["0000.tar"])
    with http_server(files) as (url, log):
        args = arguments(
            train_data=f"{url}/{{0000..0007}}.tar",
            train_num_samples=64,
            workers=2,
            batch_size=4,
            dataset_resampled=resampled,
        )

        def epochs(options: FeedOptions) -> list[tuple[list[str], int]]:
            torch.manual_seed(0)
            loader = get_data(args, (plain, plain), tokenizer=as_text, options=options)[
                "train"
            ].dataloader
            given = []
            for _ in range(3):
                log.clear()
                given.append(([text for batch in loader for text in texts(batch)], tar_bytes(log)))
                time.sleep(0.1)
            loader.close()
            return given

        quiet = FeedOptions(status_every=0.0)
        expected = epochs(quiet)
        given = epochs(replace(quiet, cache=str(tmp_path / "cache"), cache_size=4 * size + 10))
    assert [keys for keys, _ in given] == [keys for keys, _ in expected]
    if not resampled:
        # At its end a stream begins to read its first shard again, in case that batches are
        # lacking.
        assert sum(sent for _, sent in given[1:]) < (2 * 4 + 1) * size


def test_its_figures_are_in_metrics_and_in_the_table(tmp_path, caplog):
    caplog.set_level("INFO")
    with served(tmp_path, [5, 6], 20_000) as (url, _):
        for name in ("feed.prom", "feed.jsonl"):
            options = FeedOptions(decode_in="threads", decoders=2, metrics=str(tmp_path / name))
            one = feed(url, options=options, cache=tmp_path / "cache", cache_size="1GB")
            list(one)
            list(one)
            one.close()
    last = json.loads((tmp_path / "feed.jsonl").read_text().splitlines()[-1])["cache"]
    total = sum((tmp_path / f"{number}.tar").stat().st_size for number in (0, 1))
    assert last == {
        "limit": 10**9,
        "size": total,
        "hits": 2,
        "stored": 0,
        "passed": 0,
        "saved": total,
        "downloaded": 0,
    }
    assert 'wdsflow_cache_limit_bytes{rank="0"} 1000000000' in (tmp_path / "feed.prom").read_text()
    assert "  cache: 2 shards read from it (" in caplog.text
    assert ", 0 added, 0 not kept, 0 B downloaded, " in caplog.text


def test_a_cache_has_a_size(tmp_path):
    for wrong in ({"cache": tmp_path}, {"cache_size": "1GB"}):
        with pytest.raises(FeedError, match="is given without cache"):
            feed("s3://none/0.tar", **wrong)
    with pytest.raises(FeedError, match="not a local folder"):
        feed("http://127.0.0.1:9/0.tar", cache="s3://bucket/cache", cache_size="1GB")
    with pytest.raises(FeedError, match=r"wdsflow\.feed takes cache= for that"):
        feed("s3://none/0.tar", options=FeedOptions(cache=str(tmp_path), cache_size="1GB"))


def _run(
    url: str, folder: str, table: str, room: int, epochs: int, out: str, settings: dict[str, str]
) -> None:
    """Feed some epochs with a table that is joined, and note the keys of each whole one."""
    os.environ.update(settings)
    options = FeedOptions(status_every=0.0, decode_in="threads", decoders=1)
    one = make(
        url,
        batch_size=4,
        fields=("bin", "txt", "__key__"),
        options=options,
        cache=folder,
        cache_size=room,
        join=table,
        join_set={"txt": "caption"},
    )
    for _ in range(epochs):
        given = []
        for _, captions, of_batch in one:
            assert list(captions) == [f"caption of {key}" for key in of_batch]
            given += of_batch
        with Path(out).open("a") as stream:
            stream.write(json.dumps(given) + "\n")
    one.close()


@contextmanager
def _on_http(files: dict[str, bytes], _: Path) -> Iterator[tuple[str, Log, dict[str, str]]]:
    with http_server(files) as (url, log):
        yield url, log, {}


@contextmanager
def _on_s3(files: dict[str, bytes], folder: Path) -> Iterator[tuple[str, Log, dict[str, str]]]:
    with s3_server() as (url, port, log), pytest.MonkeyPatch.context() as patch:
        put(port, "bucket", b"")
        for name, data in files.items():
            put(port, f"bucket/{name}", data)
        before = dict(os.environ)
        use_s3(patch, url, folder)
        changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
        yield "s3://bucket", log, changed


class _Faults:
    """A slow server: of all requests, some are refused for now, and some answers are cut."""

    def __init__(self, log: Log, share: float) -> None:
        self._chance = random.Random(2)
        self._share = share
        log.twist, log.cut = self._delay_or_refuse, self._cut

    def _delay_or_refuse(self, _: object, answer: Answer) -> None:
        time.sleep(0.02)
        if self._chance.random() < self._share:
            answer.status = self._chance.choice([429, 500, 503])
            answer.headers = {"Retry-After": "0"}
            answer.body = b""

    def _cut(self, _: object) -> int | None:
        return self._chance.randrange(100_000) if self._chance.random() < self._share else None


def _plans(tmp_path: Path, count: int, server=_on_http, faults: float = 0.0) -> None:
    """Kill runs that share a cache at random moments, two at a time.

    Then let two runs end, and one more alone.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.training.test_feed_cache", "wdsflow.training.torch_feed"]
    )
    files, expected = {}, []
    for shard in range(6):
        members = [
            (f"{shard}{number:03d}.bin", random.Random(100 * shard + number).randbytes(150_000))
            for number in range(10)
        ]
        expected += [name.removesuffix(".bin") for name, _ in members]
        tar = write_tar(tmp_path / f"{shard}.tar", members)
        files[f"{shard}.tar"] = tar.read_bytes()
    table = tmp_path / "captions.csv"
    table.write_text("\n".join(["key,caption", *(f"{key},caption of {key}" for key in expected)]))
    hashes = {hashlib.sha256(data).hexdigest() for data in files.values()}
    size = len(files["0.tar"])
    folder, out = tmp_path / "cache", tmp_path / "out"
    (folder / "wdsflow-shards").mkdir(parents=True)
    mine = [folder / "mine.tar", folder / "wdsflow-shards" / "mine.part"]
    for path in mine:
        path.write_text("mine")
    chance = random.Random(1)
    with server(files, tmp_path) as (url, log, address):
        settings = {**address, "XDG_CACHE_HOME": str(tmp_path / "home")}
        _Faults(log, faults)

        def started(epochs: int) -> multiprocessing.process.BaseProcess:
            words = (f"{url}/{{0..5}}.tar", str(folder), str(table), round(3.5 * size), epochs)
            child = context.Process(target=_run, args=(*words, str(out), settings))
            child.start()
            return child

        def check() -> None:
            kept = list(folder.rglob("*.shard"))
            assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in kept} <= hashes
            assert len(kept) <= 3
            assert all(path.read_text() == "mine" for path in mine)

        for _ in range(count):
            for child in [started(100), started(100)]:
                child.join(chance.uniform(0.1, 1.2))
                child.kill()
                child.join()
            check()
        last = [started(2), started(2)]
        for child in last:
            child.join()
            assert child.exitcode == 0
        check()
        _Faults(log, 0.0)
        log.asked.clear()
        missing = len(files) - len(list(folder.rglob("*.shard")))
        alone = started(2)
        alone.join()
        assert alone.exitcode == 0
        check()
        # What the runs before have not left is read for the names of its samples, and downloaded
        # in the first epoch; the other epoch lacks half of the shards.
        assert 3 + 3 - 1 <= tar_bytes(log) / size <= 2 * missing + 3 + 1
    assert not list((folder / "wdsflow-runs").glob("*.plan"))
    given = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(given) >= 6
    assert all(sorted(one) == expected for one in given)


def test_runs_that_are_killed_leave_nothing_partial(tmp_path):
    _plans(tmp_path, 1)


@pytest.mark.deep
@pytest.mark.parametrize("server", [_on_http, _on_s3])
def test_many_runs_that_are_killed_leave_nothing_partial(tmp_path, server):
    _plans(tmp_path, PLANS, server, faults=0.04)


@pytest.mark.deep
def test_a_training_shows_its_figures(tmp_path):
    write_data(tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*.tar")}
    with http_server(files) as (url, log):
        words = command(tmp_path, "cached")
        words[words.index("--train-data") + 1] = f"{url}/{{0000..0003}}.tar"
        cache = ["--cache", str(tmp_path / "cache"), "--cache-size", "1GB"]
        done = subprocess.run(
            [sys.executable, "-m", "wdsflow", "train", "--no-preflight", *cache, "--", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert {name: log.sent(name) for name in files} == {
            name: len(data) + 1 for name, data in files.items()
        }
    assert "feed: in all epochs, cache: 4 shards read from it (" in done.stdout + done.stderr
