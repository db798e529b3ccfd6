"""Several scanning processes against one, and against workers that die."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from wdsflow.engines import site
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.shards.shard import Shard


def write(path: Path, samples: int) -> Shard:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(samples):
            for field in ("cls", "txt"):
                info = tarfile.TarInfo(f"{number:04d}.{field}")
                info.size = 3
                tar.addfile(info, io.BytesIO(b"123"))
    return Shard.file(str(path))


def test_processes_find_what_one_process_finds_in_the_same_order(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{number}.tar", number) for number in range(7)] + [
        Shard.file(str(tmp_path / "none.tar"))
    ]
    alone = scan_shards(urls, ScanOptions(), jobs=1)
    seen: list[str] = []
    together = scan_shards(
        urls, ScanOptions(), jobs=3, progress=lambda shard: seen.append(shard.url)
    )

    assert [shard.url for shard in together] == urls
    assert sorted(seen) == sorted(urls)
    for one, other in zip(alone, together, strict=True):
        assert one == other


def quick(url: Shard, _: ScanOptions) -> ShardEvidence:
    """Tell who scans."""
    return ShardEvidence(url, bytes_read=os.getpid())


def slow(url: Shard, options: ScanOptions) -> ShardEvidence:
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    return quick(url, options)


@pytest.mark.parametrize(
    ("how", "level", "jobs", "here"),
    [
        (quick, "headers", None, 4),
        (slow, "headers", None, 1),
        (quick, "full", None, 0),
        (quick, "headers", 2, 0),
    ],
)
def test_shards_are_scanned_in_this_process_until_processes_would_be_quicker(
    how, level, jobs, here, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(site, "usable_cores", lambda: 2)
    urls = [Shard.file(str(tmp_path / f"{number}.tar")) for number in range(4)]
    for url in urls:
        Path(url).touch()
        os.truncate(url, 10 << 20)  # together more than what is always scanned here
    shards = scan_shards(urls, ScanOptions(level=level), jobs, scan_functions=[how] * 4)
    assert [shard.url for shard in shards] == urls
    assert [shard.bytes_read == os.getpid() for shard in shards] == [True] * here + [False] * (
        4 - here
    )


def faulty(url: Shard, _: ScanOptions) -> ShardEvidence:
    raise KeyError(url)


@pytest.mark.parametrize("jobs", [None, 1, 2])
def test_a_fault_of_ours_is_raised_and_is_no_fact_about_a_shard(jobs, tmp_path: Path) -> None:
    urls = [write(tmp_path / name, 3) for name in ("a.tar", "b.tar")]
    with pytest.raises(RuntimeError, match=r"KeyError: .*[ab]\.tar"):
        scan_shards(urls, ScanOptions(), jobs, scan_functions=[faulty] * 2)


def test_a_worker_that_dies_costs_its_shard_and_no_other(tmp_path: Path) -> None:
    # The same 200 samples 100 times: they take long to scan, and the tar is written at once.
    victim = tmp_path / "victim.tar"
    members = Path(write(victim, 200)).read_bytes()[: 400 * 2 * tarfile.BLOCKSIZE]
    victim.write_bytes(members * 100 + bytes(2 * tarfile.BLOCKSIZE))
    urls = [write(tmp_path / "a.tar", 3), str(victim), write(tmp_path / "b.tar", 4)]
    code = (
        "import sys; from wdsflow.scan.scan_pool import scan_shards; from wdsflow.scan.scan import ScanOptions\n"
        "from wdsflow.shards.urls import expand\n"
        "for shard in scan_shards(expand(sys.argv[1:], allow_pipe=True).urls, ScanOptions(), jobs=2): print(shard.samples, shard.error)\n"
    )
    killed = set()
    with subprocess.Popen(
        [sys.executable, "-c", code, *urls], stdout=subprocess.PIPE, text=True
    ) as run:
        while run.poll() is None:
            for child in reading(victim, run.pid) - killed:
                os.kill(child, signal.SIGKILL)
                killed.add(child)
            time.sleep(0.01)  # less than the shard takes
        assert run.stdout is not None
        printed = run.stdout.read()

    assert printed.splitlines() == ["3 None", "0 worker-died", "4 None"]
    assert len(killed) == 2


def reading(path: Path, parent: int) -> set[int]:
    """Return the processes below another one that have a file open: between them is a keeper."""
    found = set()
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                if any(link.resolve() == path for link in Path(f"/proc/{child}/fd").iterdir()):
                    found.add(child)
                found |= reading(path, child)
    return found
