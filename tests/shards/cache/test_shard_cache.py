"""Remote shards through a cache: requests, kept shards, and failures."""

import concurrent.futures.thread
import hashlib
import logging
import multiprocessing
import os
import random
import resource
import threading
import time
from pathlib import Path

import pytest

from tests.servers import http_server
from wdsflow.shards.cache import cached_source, folder, locks, shard_cache
from wdsflow.shards.cache.entry import boot_digest, url_number
from wdsflow.shards.cache.figures import CacheFigures
from wdsflow.shards.cache.shard_cache import ShardCache, shared_cache
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.remote import RemoteSource

SIZE = 1_500_000
NOBODY = 65_534


def contents(number: int, size: int = SIZE) -> bytes:
    # The first bytes are no compression's.
    return b"shard" + random.Random(number).randbytes(size - 5)


@pytest.fixture
def server():
    files = {f"{number}.tar": contents(number) for number in range(4)}
    with http_server(files) as (url, log):
        yield url, files, log


def shard(url: str, number: int) -> Shard:
    return Shard.url(f"{url}/{number}.tar")


def read(cache: ShardCache, one: Shard) -> bytes:
    with cache.open(one) as source:
        pieces = []
        while data := source.read_at(sum(map(len, pieces)), 100_000):
            pieces.append(data)
    return b"".join(pieces)


def files_in(folder: Path, ending: str) -> list[Path]:
    return sorted(folder.rglob(f"*.{ending}"))


def await_downloads(cache: ShardCache) -> None:
    for download in list(cache._downloads):
        download.thread.join()


def test_a_shard_is_downloaded_once_and_then_read_from_its_file(tmp_path, server):
    url, files, log = server
    cache = ShardCache(tmp_path / "cache", 10 * SIZE)
    assert read(cache, shard(url, 0)) == files["0.tar"]
    await_downloads(cache)
    assert log.sent("0.tar") == SIZE
    assert read(cache, shard(url, 0)) == files["0.tar"]
    # One byte, to see that it is still the same.
    assert log.sent("0.tar") == SIZE + 1
    assert read(ShardCache(tmp_path / "cache", 10 * SIZE), shard(url, 0)) == files["0.tar"]
    assert log.sent("0.tar") == SIZE + 2
    figures = cache.figures
    assert (figures.hits, figures.stored, figures.passed) == (1, 1, 0)
    assert (figures.saved, figures.downloaded, figures.size) == (SIZE, SIZE, SIZE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_file_of_another_user_is_read(tmp_path, server, monkeypatch):
    url, files, log = server
    # From here no other user needs to pass the folders above.
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    cache = ShardCache(Path("cache"), 10 * SIZE)
    read(cache, shard(url, 0))
    await_downloads(cache)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(PermissionError):
            os.utime(files_in(Path(), "shard")[0])
        assert read(cache, shard(url, 0)) == files["0.tar"]
    finally:
        os.seteuid(0)
    assert log.sent("0.tar") == SIZE + 1


def test_a_changed_object_is_downloaded_again(tmp_path, server):
    url, files, _log = server
    cache = ShardCache(tmp_path / "cache", 10 * SIZE)
    read(cache, shard(url, 0))
    await_downloads(cache)
    files["0.tar"] = contents(9)
    assert read(cache, shard(url, 0)) == files["0.tar"]
    await_downloads(cache)
    (kept,) = files_in(tmp_path, "shard")
    assert kept.read_bytes() == files["0.tar"]


def test_readers_share_a_download(tmp_path, server):
    url, files, log = server
    log.twist = lambda asked, answer: time.sleep(0.05)
    caches = [ShardCache(tmp_path / "cache", 10 * SIZE) for _ in range(3)]
    results = []
    threads = [
        threading.Thread(target=lambda cache=cache: results.append(read(cache, shard(url, 1))))
        for cache in caches
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache in caches:
        await_downloads(cache)
    assert results == [files["1.tar"]] * 3
    # Those that came at the same time have asked for the first bytes, too.
    assert log.sent("1.tar") < SIZE + 3 * (512 << 10)
    assert len(files_in(tmp_path, "shard")) == 1


def stored_at(cache: ShardCache, one: Shard) -> str:
    with cache.open(one) as source:
        return source.stored_at


def test_files_are_for_other_processes_once_all_that_is_needed_is_there(
    tmp_path, server, monkeypatch
):
    url, files, _log = server
    cache = ShardCache(tmp_path, 10 * SIZE)
    shards = [shard(url, number) for number in range(2)]
    numbers = [url_number(one) for one in shards]
    plan = cache.new_plan()
    cache.begin_epoch(plan, numbers, 2)
    for one in shards:
        assert stored_at(cache, one) == ""
    await_downloads(cache)
    # It does not look each time.
    assert stored_at(cache, shards[0]) == ""
    monkeypatch.setattr(shard_cache, "_REVIEW_INTERVAL", 0.0)
    cache.begin_epoch(plan, [*numbers, url_number(shard(url, 2))], 2)
    assert stored_at(cache, shards[0]) == ""
    read(cache, shard(url, 2))
    await_downloads(cache)
    path = Path(stored_at(cache, shards[0]))
    assert path.read_bytes() == files["0.tar"]
    cache.end_plan(plan)


def test_only_files_of_its_own_are_removed(tmp_path, server):
    url, _files, _log = server
    cache = ShardCache(tmp_path, 2 * SIZE)
    mine = [tmp_path / "0.tar", tmp_path / "wdsflow-shards" / "notes", tmp_path / "a.part"]
    for number in range(4):
        read(cache, shard(url, number))
        await_downloads(cache)
        folder = files_in(tmp_path, "shard")[0].parent
        mine.append(folder / f"{number}.tar")
        for path in mine:
            path.write_text("mine")
        assert sum(path.stat().st_size for path in files_in(tmp_path, "shard")) <= 2 * SIZE
    assert all(path.read_text() == "mine" for path in mine)
    assert "Signature: 8a477f597d28d172789f06886806bc55" in (tmp_path / "CACHEDIR.TAG").read_text()


def test_what_is_needed_next_is_kept(tmp_path, server):
    url, files, log = server
    shards = [shard(url, number) for number in range(4)]
    cache, other = ShardCache(tmp_path, 2 * SIZE), ShardCache(tmp_path, 2 * SIZE)
    uses = [url_number(one) for one in [*shards, shards[0], shards[3]]]
    plan = cache.new_plan()
    cache.begin_epoch(plan, uses, 4)
    for one in shards:
        read(cache, one)
        await_downloads(cache)
    log.clear()
    read(cache, shards[0])
    read(cache, shards[3])
    assert sum(log.sent(f"{number}.tar") for number in range(4)) == 2
    assert (cache.figures.stored, cache.figures.passed) == (3, 1)
    # Another run needs the second shard before this one needs the first.
    cache.begin_epoch(plan, [url_number(shards[1])] * 3 + [url_number(shards[0])], 0)
    other.begin_epoch(other.new_plan(), [url_number(shards[number]) for number in (1, 1, 3, 0)], 0)
    read(other, shards[1])
    await_downloads(other)
    kept = {path.read_bytes() for path in files_in(tmp_path, "shard")}
    assert kept == {files["1.tar"], files["3.tar"]}
    cache.end_plan(plan)
    assert len(list((tmp_path / "wdsflow-runs").iterdir())) == 1


def test_a_limit_below_one_shard_is_reported_once(tmp_path, server, caplog):
    url, files, _log = server
    cache = ShardCache(tmp_path, SIZE - 1)
    for number in (0, 1, 0):
        assert read(cache, shard(url, number)) == files[f"{number}.tar"]
    assert [record.getMessage() for record in caplog.records] == [
        "wdsflow: 1,499,999 bytes of cache_size are less than a shard: it is read from its server each time"
    ]
    assert cache.figures.passed == 3


def test_a_server_without_versions_is_read_as_ever(tmp_path, caplog):
    def silent(asked, answer):
        del answer.headers["ETag"], answer.headers["Last-Modified"]

    with http_server({"0.tar": contents(0)}) as (url, log):
        log.twist = silent
        cache = ShardCache(tmp_path, 10 * SIZE)
        assert read(cache, shard(url, 0)) == contents(0)
    with http_server({"0.tar": contents(0)}, ranges=False) as (url, log):
        assert read(cache, shard(url, 0)) == contents(0)
    assert "neither an ETag nor a time" in caplog.text
    assert files_in(tmp_path, "shard") == files_in(tmp_path, "part") == []


def test_a_folder_that_cannot_be_used_is_reported_and_read_around(tmp_path, server, caplog):
    url, files, _log = server
    (tmp_path / "file").write_text("")
    assert shared_cache(tmp_path / "file" / "cache", SIZE) is None
    assert "cannot be used, shards are read from their servers" in caplog.text
    caplog.clear()
    cache = ShardCache(tmp_path / "cache", 10 * SIZE)
    read(cache, shard(url, 0))
    await_downloads(cache)
    # The disk comes and goes.
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert read(cache, shard(url, 0)) == files["0.tar"]
    assert read(cache, shard(url, 1)) == files["1.tar"]
    assert len(caplog.records) == 1


def _with_small_files(folder: Path, url: str, answers) -> None:
    """Read shards where files cannot grow beyond a million bytes, as on a disk that gets full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    cache = ShardCache(folder, 10 * SIZE)
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("wdsflow").addHandler(handler)
    digests = [hashlib.sha256(read(cache, shard(url, number))).hexdigest() for number in (0, 1)]
    answers.send((digests, messages))


def test_a_full_disk_is_reported_once_and_shards_are_read_on(tmp_path, server):
    url, files, _log = server
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    child = context.Process(target=_with_small_files, args=(tmp_path, url, theirs))
    child.start()
    theirs.close()
    digests, messages = ours.recv()
    child.join()
    assert digests == [hashlib.sha256(files[f"{number}.tar"]).hexdigest() for number in (0, 1)]
    assert len(messages) == 1
    assert "File too large" in messages[0]
    assert files_in(tmp_path, "part") == files_in(tmp_path, "shard") == []


def test_a_shard_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path, server):
    url, files, log = server
    cache = ShardCache(tmp_path, 10 * SIZE)
    read(cache, shard(url, 0))
    await_downloads(cache)
    with cache.open(shard(url, 0)) as source:
        assert source.read_at(0, 10) == files["0.tar"][:10]
        files_in(tmp_path, "shard")[0].unlink()
        assert source.read_at(10, SIZE) == files["0.tar"][10:]
    assert log.sent("0.tar") == SIZE + 1


def _killed_in_the_middle(folder: Path, url: str) -> None:
    cache = ShardCache(folder, 10 * SIZE)
    with cache.open(shard(url, 0)) as source:
        source.read_at(0, 1000)
        time.sleep(60)


def half_written(tmp_path: Path, url: str, log) -> multiprocessing.process.BaseProcess:
    """Return a process that waits for a server which is silent after half a shard."""
    log.silence = threading.Event()

    def hold(asked, answer):
        first = int((asked.range or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if first > 0:
            log.silence.wait()

    log.twist = hold
    child = multiprocessing.get_context("forkserver").Process(
        target=_killed_in_the_middle, args=(tmp_path, url)
    )
    child.start()
    while not any(path.stat().st_size for path in files_in(tmp_path, "part")):
        time.sleep(0.02)
    return child


def test_a_part_of_a_killed_run_is_continued(tmp_path, server):
    url, files, log = server
    child = half_written(tmp_path, url, log)
    child.kill()
    child.join()
    log.silence.set()
    (part,) = files_in(tmp_path, "part")
    have = part.stat().st_size
    assert 0 < have < SIZE
    log.clear()
    cache = ShardCache(tmp_path, 10 * SIZE)
    assert read(cache, shard(url, 0)) == files["0.tar"]
    await_downloads(cache)
    assert len(files_in(tmp_path, "shard")) == 1
    # The version, the first request, and what was missing.
    assert log.sent("0.tar") <= 1 + (512 << 10) + SIZE - have


def test_a_reader_goes_on_when_the_process_that_writes_is_killed(tmp_path, server):
    url, files, log = server
    child = half_written(tmp_path, url, log)
    cache = ShardCache(tmp_path, 10 * SIZE)
    with cache.open(shard(url, 0)) as source:
        assert source.read_at(0, 1000) == files["0.tar"][:1000]
        threading.Timer(0.2, child.kill).start()
        threading.Timer(0.3, log.silence.set).start()
        assert source.read_at(1000, SIZE) == files["0.tar"][1000:]
    await_downloads(cache)
    child.join()
    assert len(files_in(tmp_path, "shard")) == 1


def test_a_reader_does_not_wait_for_a_process_that_hangs(tmp_path, server, monkeypatch):
    url, files, log = server
    child = half_written(tmp_path, url, log)
    monkeypatch.setattr(cached_source, "_PATIENCE", 0.2)
    cache = ShardCache(tmp_path, 10 * SIZE)
    with cache.open(shard(url, 0)) as source:
        log.silence.set()
        os.kill(child.pid, 19)
        assert source.read_at(0, SIZE) == files["0.tar"]
    child.kill()
    child.join()


def test_parts_that_nobody_needs_are_removed(tmp_path, server):
    url, _files, log = server
    child = half_written(tmp_path, url, log)
    cache = ShardCache(tmp_path, 10 * SIZE)
    plan = cache.new_plan()
    cache.begin_epoch(plan, [], 0)
    # A living process writes it.
    assert len(files_in(tmp_path, "part")) == 1
    child.kill()
    child.join()
    log.silence.set()
    cache.begin_epoch(plan, [url_number(shard(url, 0))], 1)
    assert len(files_in(tmp_path, "part")) == 1
    cache.begin_epoch(plan, [], 0)
    assert files_in(tmp_path, "part") == []


def test_files_that_are_not_what_their_names_say_are_removed(tmp_path, server):
    url, files, _log = server
    cache = ShardCache(tmp_path, 10 * SIZE)
    read(cache, shard(url, 0))
    await_downloads(cache)
    (kept,) = files_in(tmp_path, "shard")
    os.truncate(kept, SIZE - 1)
    # Of another start of the system, after which a part may have zeros.
    part = kept.with_name(f"{kept.stem}.{'0' * 8}.part")
    part.write_bytes(b"\0" * 100)
    assert boot_digest() != "0" * 8
    assert read(cache, shard(url, 0)) == files["0.tar"]
    await_downloads(cache)
    assert [path.stat().st_size for path in files_in(tmp_path, "shard")] == [SIZE]
    assert not part.exists()


def test_errors_of_the_server_stay_those_of_the_server(tmp_path, server):
    url, files, _log = server
    cache = ShardCache(tmp_path, 10 * SIZE)
    with pytest.raises(SourceError, match="no such file"):
        cache.open(shard(url, 7))
    read(cache, shard(url, 0))
    await_downloads(cache)
    del files["0.tar"]
    with pytest.raises(SourceError, match="no such file"):
        cache.open(shard(url, 0))


def test_local_shards_are_no_matter_of_the_cache(tmp_path):
    path = tmp_path / "0.tar"
    path.write_bytes(contents(0))
    cache = ShardCache(tmp_path / "cache", 10 * SIZE)
    with cache.open(Shard.file(str(path))) as source:
        assert source.fd >= 0
    assert cache.figures == CacheFigures(10 * SIZE)


def test_a_download_that_fails_in_the_process_is_read_from_the_server(
    tmp_path, server, monkeypatch, caplog
):
    url, files, _log = server
    read_at = RemoteSource.read_at

    def fail_in_thread(source: RemoteSource, offset: int, size: int) -> bytes:
        if offset > 600_000 and threading.current_thread().name == "wdsflow-cache":
            raise RuntimeError("can't start new thread")
        return read_at(source, offset, size)

    monkeypatch.setattr(RemoteSource, "read_at", fail_in_thread)
    cache = ShardCache(tmp_path, 10 * SIZE)
    results: list[bytes] = []
    reader = threading.Thread(
        target=lambda: results.append(read(cache, shard(url, 0))), daemon=True
    )
    reader.start()
    reader.join(5)
    assert results == [files["0.tar"]]
    assert "shards are read from their servers: the download of a shard failed" in caplog.text


def test_a_process_that_can_start_no_thread_reads_from_the_server(
    tmp_path, server, monkeypatch, caplog
):
    url, files, _log = server
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "wdsflow-cache":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    cache = ShardCache(tmp_path, 10 * SIZE)
    assert read(cache, shard(url, 0)) == files["0.tar"]
    assert "the download of a shard did not start: can't start new thread" in caplog.text
    assert files_in(tmp_path, "part") == []


def test_a_smaller_limit_removes_what_is_needed_last(tmp_path, server):
    url, files, _log = server
    shards = [shard(url, number) for number in range(4)]
    earlier = ShardCache(tmp_path, 4 * SIZE)
    for one in shards:
        read(earlier, one)
    await_downloads(earlier)
    cache = ShardCache(tmp_path, 2 * SIZE)
    cache.begin_epoch(cache.new_plan(), [url_number(shards[number]) for number in (3, 1, 0, 2)], 4)
    kept = {path.read_bytes() for path in files_in(tmp_path, "shard")}
    assert kept == {files["3.tar"], files["1.tar"]}
    assert cache.figures.size == 2 * SIZE


def test_a_smaller_limit_holds_next_to_a_run_with_a_larger_one(tmp_path, server):
    url, _files, _log = server
    shards = [shard(url, number) for number in range(4)]
    cache, larger = ShardCache(tmp_path, SIZE), ShardCache(tmp_path, 4 * SIZE)
    cache.begin_epoch(cache.new_plan(), [url_number(one) for one in shards * 2], 4)
    for one in shards[1:]:
        read(larger, one)
    await_downloads(larger)
    read(cache, shards[0])
    await_downloads(cache)
    assert len(files_in(tmp_path, "shard")) == 1


def test_a_part_that_is_removed_is_no_broken_disk(tmp_path, server, caplog):
    url, files, log = server
    child = half_written(tmp_path, url, log)
    cache = ShardCache(tmp_path, 10 * SIZE)
    with cache.open(shard(url, 0)) as source:
        assert source.read_at(0, 1000) == files["0.tar"][:1000]
        child.kill()
        child.join()
        files_in(tmp_path, "part")[0].unlink()
        log.silence.set()
        assert source.read_at(1000, SIZE) == files["0.tar"][1000:]
    assert caplog.records == []
    # The next shard is kept.
    read(cache, shard(url, 1))
    await_downloads(cache)
    assert len(files_in(tmp_path, "shard")) == 1


def test_a_part_that_a_reader_continues_has_one_writer(tmp_path, server, monkeypatch):
    url, files, _log = server
    cache, other = ShardCache(tmp_path, 10 * SIZE), ShardCache(tmp_path, 10 * SIZE)
    readers: list[Source] = []

    def lock_late(file: int) -> bool:
        if not readers:
            readers.append(other.open(shard(url, 0)))
        return locks.try_lock(file)

    monkeypatch.setattr(folder, "try_lock", lock_late)
    assert read(cache, shard(url, 0)) == files["0.tar"]
    with readers[0] as source:
        assert source.read_at(0, SIZE) == files["0.tar"]
    await_downloads(other)
    assert cache.figures.stored == 0
    assert not cache._downloads
    assert [path.stat().st_size for path in files_in(tmp_path, "shard")] == [SIZE]


def _ends_during_a_download(folder: Path, url: str, stderr: Path) -> None:
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    cache = ShardCache(folder, 10 * SIZE)
    cache.open(shard(url, 0)).read_at(0, 1000)
    # What the interpreter does when it ends, before it stops threads like this one.
    concurrent.futures.thread._python_exit()
    await_downloads(cache)


def test_a_process_ends_quietly_during_a_download(tmp_path, server):
    url, files, log = server
    files["0.tar"] = contents(0, 12_000_000)
    log.twist = lambda asked, answer: time.sleep(0.2)
    stderr = tmp_path / "stderr"
    child = multiprocessing.get_context("forkserver").Process(
        target=_ends_during_a_download, args=(tmp_path, url, stderr)
    )
    child.start()
    child.join()
    assert stderr.read_text() == ""
    assert len(files_in(tmp_path, "part")) == 1
