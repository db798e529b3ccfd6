"""The first shards are worked on in threads; the others in processes, if they will take long."""

import errno
import os
import signal
from pathlib import Path
from threading import Event
from typing import NamedTuple

import psutil
import pytest

from tests.shards.archives import write_tar
from wdsflow.engines import site
from wdsflow.records.shard_jobs import run_on_shards
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.reshaping.reshard import reshard_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError


class Job(NamedTuple):
    """A shard, and what is done with it."""

    url: Shard
    what: str = ""


def act(job: Job, _: Event) -> int:
    if job.what == "full disk":
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch/0.rows")
    if job.what == "unreadable":
        raise SourceError("io", "the disk is gone")
    if job.what == "mistake":
        raise KeyError("no such thing")
    if job.what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@pytest.fixture
def always(monkeypatch):
    """Use processes, however quick it is."""
    monkeypatch.setattr(site, "_LONG", -1.0)


def shards(folder: Path, count: int, samples: int = 3) -> list[Shard]:
    folder.mkdir()
    for number in range(count):
        texts = (
            (f"{number:02}{sample:03}.txt", b"text %d" % (number * sample))
            for sample in range(samples)
        )
        write_tar(folder / f"{number}.tar", texts)
    return sorted(Shard.file(str(path)) for path in folder.iterdir())


def run(jobs: list[Job]) -> dict[Job, int]:
    done: dict[Job, int] = {}
    run_on_shards(jobs, act, lambda job, pid: done.update({job: pid}), 2)
    return done


def test_quick_work_stays_in_this_process(tmp_path):
    done = run([Job(url) for url in shards(tmp_path / "in", 6)])
    assert set(done.values()) == {os.getpid()}
    assert len(done) == 6


def test_long_work_goes_to_processes_after_the_first_shards(tmp_path, always):
    jobs = [Job(url) for url in shards(tmp_path / "in", 6)]
    done = run(jobs)
    assert set(done) == set(jobs)
    assert [done[job] == os.getpid() for job in jobs] == [True, True, False, False, False, False]


def test_what_waits_for_a_command_stays_in_this_process(tmp_path, always):
    urls = [*shards(tmp_path / "in", 5), Shard.command("pipe:cat x")]
    assert set(run([Job(url) for url in urls]).values()) == {os.getpid()}


def test_a_full_disk_is_reported_as_it_is_in_a_thread(tmp_path, always):
    urls = shards(tmp_path / "in", 6)
    with pytest.raises(OSError, match="No space left on device") as caught:
        run([*(Job(url) for url in urls[:5]), Job(urls[5], "full disk")])
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/scratch/0.rows")


def test_a_shard_that_cannot_be_read_is_reported_as_it_is_in_a_thread(tmp_path, always):
    urls = shards(tmp_path / "in", 6)
    with pytest.raises(SourceError, match="the disk is gone") as caught:
        run([*(Job(url) for url in urls[:5]), Job(urls[5], "unreadable")])
    assert (caught.value.kind, caught.value.fix) == ("io", "")


@pytest.mark.deep
def test_a_mistake_tells_where_it_is(tmp_path, always):
    urls = shards(tmp_path / "in", 6)
    with pytest.raises(RuntimeError, match=r"in act\n[^\n]*\n.*no such thing"):
        run([*(Job(url) for url in urls[:5]), Job(urls[5], "mistake")])


def test_a_shard_that_kills_who_works_on_it_ends_the_run_by_name(tmp_path, always):
    urls = shards(tmp_path / "in", 6)
    with pytest.raises(OSError, match=r"5\.tar: the process that worked on this shard died"):
        run([*(Job(url) for url in urls[:5]), Job(urls[5], "killed")])


def test_ctrl_c_stops_the_processes_and_leaves_whole_shards_only(tmp_path, always):
    urls = shards(tmp_path / "in", 8, 500)
    table = tmp_path / "t.jsonl"
    table.write_text(
        "".join(
            f'{{"key": "{shard:02}{sample:03}", "n": 1}}\n'
            for shard in range(8)
            for sample in range(500)
        )
    )
    options = {"table": table, "on": "key", "fields": ["n=n"], "jobs": 2}
    steps: list[object] = []
    others = set(psutil.Process().children(recursive=True))  # of other tests

    def step(_: object) -> None:
        steps.append(_)
        if len(steps) == 8 + 5:  # in the second pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graft_shards(urls, tmp_path / "out", begin=lambda _: step, **options)
    left = sorted(
        path.name for path in (tmp_path / "out").iterdir() if path.suffix not in {"", ".json"}
    )
    assert 5 <= len(left) < 8
    assert all(name.endswith(".tar") for name in left)
    assert set(psutil.Process().children(recursive=True)) <= others
    again = graft_shards(urls, tmp_path / "out", **options)
    assert again.resumed >= 5
    assert again.total("matched") == 8 * 500


def test_processes_make_the_same_shards(tmp_path, monkeypatch):
    urls = shards(tmp_path / "in", 7, 40)
    Path(urls[5]).write_bytes(Path(urls[5]).read_bytes()[:19_970])
    plain = reshard_shards(urls, tmp_path / "threads", shards=4)
    monkeypatch.setattr(site, "_LONG", -1.0)
    ours = reshard_shards(urls, tmp_path / "processes", shards=4)
    files = [path.name for path in (tmp_path / "threads").iterdir() if path.is_file()]
    assert len(files) > 4
    for name in files:
        assert (tmp_path / "threads" / name).read_bytes() == (
            tmp_path / "processes" / name
        ).read_bytes()
    assert str(ours).replace(str(tmp_path / "processes"), str(tmp_path / "threads")) == str(plain)
    assert ours.lost
