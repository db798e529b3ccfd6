"""Runs on a real Ray cluster of two nodes, compared with runs of one process.

They give the same bytes, whichever process is killed.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engines.cluster import ROOT, Cluster
from tests.filtering.shards import digests, entries, write_shards
from tests.shards.archives import names, write_tar
from wdsflow import Recipe, RunOptions, check, filter_shards, measure_shards
from wdsflow.engines.base import Engine, EngineError, WorkerFailure
from wdsflow.engines.cluster import connect_to_cluster
from wdsflow.engines.ray_engine import RayEngine
from wdsflow.engines.retries import NODE_LOSSES
from wdsflow.engines.site import Site
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan_pool import ScanTask, scan_task
from wdsflow.shards.source.base import single_shard
from wdsflow.text.install import install_extras

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("new_interpreters"),
]
WHERE = "min_side >= 200 and caption_words >= 2 and blur >= 0 and entropy >= 0"


def on(cluster: Cluster, **more: Any) -> RunOptions:
    return RunOptions(engine="ray", address=cluster.address, **more)


class Meanwhile:
    """A ``begin`` that suspends chosen processes at a result, and acts at the next one.

    A suspended worker has a shard: the engine gives each worker its next shard before it reports a
    result. While ``choose`` finds nobody to suspend, the workers that are there are held, so that
    the next result comes from another.
    """

    def __init__(
        self,
        site: str,
        choose: Callable[[], list[psutil.Process]],
        act: Callable[[list[psutil.Process]], None],
    ) -> None:
        self._site, self._choose, self._act = site, choose, act
        self._held: list[psutil.Process] = []
        self._chosen: list[psutil.Process] = []
        self.happened = False

    def __call__(self, total: int, what: str) -> Callable[[Any], None]:
        return self._tell

    def _tell(self, result: Any) -> None:
        if self.happened:
            return
        if self._chosen:
            self._act(self._chosen)
            self.happened = True
            return
        self._chosen = self._choose()
        for each in self._held:
            each.resume()
        for each in self._chosen:
            each.suspend()
        self._held = [] if self._chosen else workers(self._site)
        for each in self._held:
            each.suspend()


def many_shards(folder: Path, shards: int) -> str:
    """Write a few shards, and more by name."""
    write_shards(folder, shards=2, samples=30)
    for number in range(2, shards):
        os.link(folder / f"{number % 2:05d}.tar", folder / f"{number:05d}.tar")
    return str(folder)


def workers(site: str) -> list[psutil.Process]:
    """Return the processes that compute scores on this cluster.

    The parent of each is its keeper.
    """
    family = [
        process
        for process in psutil.process_iter(["cmdline", "environ", "ppid"])
        if any("wdsflow.engines.worker" in word for word in process.info["cmdline"] or ())
        and site in (process.info["environ"] or {}).get("PYTHONPATH", "")
    ]
    keepers = {process.pid for process in family} & {process.info["ppid"] for process in family}
    return [process for process in family if process.info["ppid"] in keepers]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "where", [f"{WHERE} and aspect_ratio < 1.07", f"{WHERE} and not duplicate"]
)
def test_every_file_of_a_run_has_the_bytes_of_a_run_on_one_machine(
    tmp_path: Path, cluster: Cluster, where: str
):
    source = Path(write_shards(tmp_path / "in", shards=4, samples=20))
    write_tar(
        source / "00004.tar",
        [*entries(4, 10), ("0040099.jpg", b"no picture"), ("0040099.txt", b"two words")],
    )
    (source / "00005.tar").write_bytes((source / "00000.tar").read_bytes()[:30_000])
    subprocess.run(["gzip", str(source / "00001.tar")], check=True)
    recipe = Recipe(where=where)
    alone = filter_shards(str(source), tmp_path / "alone", recipe, RunOptions(jobs=0))
    together = filter_shards(str(source), tmp_path / "together", recipe, on(cluster))
    assert digests(tmp_path / "together") == digests(tmp_path / "alone")
    assert str(together) == str(alone)
    assert together.merged("quarantined")
    assert len(together.records) == 6


@pytest.mark.deep
def test_scores_and_cuts_have_the_bytes_of_runs_on_one_machine(
    tmp_path: Path, cluster: Cluster, monkeypatch
):
    write_shards(tmp_path / "in", shards=3, samples=10)
    monkeypatch.chdir(tmp_path)  # relative paths are the same elsewhere
    scores = Recipe(scores=("blur", "caption_words"))
    measure_shards("in", "alone-scores", scores, RunOptions(jobs=0))
    measure_shards("in", "scores", scores, on(cluster))
    cut = Recipe(where="blur > 10 and caption_words > 2")
    filter_shards("in", "alone", cut, RunOptions(jobs=0), ledger="alone-scores")
    filter_shards("in", "cut", cut, on(cluster, memory=4 << 30), ledger="scores")
    assert digests(Path("scores")) == digests(Path("alone-scores"))
    assert digests(Path("cut")) == digests(Path("alone"))
    tried = filter_shards("in", "tried", cut, on(cluster, dry_run=True), ledger="scores")
    assert (
        tried.total("kept") == sum(len(names(path)) for path in Path("cut").glob("*.tar")) / 3 > 0
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alone",
        "alone-scores",
        "cut",
        "in",
        "scores",
    ]


@pytest.mark.deep
def test_a_shard_that_cannot_be_read_is_told_and_the_others_are_done(
    tmp_path: Path, cluster: Cluster
):
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    urls = [f"{source}/00000.tar", f"{source}/none.tar", f"{source}/00001.tar"]
    report = filter_shards(urls, tmp_path / "out", Recipe(where="caption_words > 1"), on(cluster))
    assert [failure.name for failure in report.failures] == ["none.tar"]
    assert [record.name for record in report.records] == ["00000.tar", "00001.tar"]


@pytest.mark.deep
def test_a_node_that_is_lost_in_the_middle_changes_nothing(
    tmp_path: Path, cluster: Cluster, site: str, capfd
):
    source = many_shards(tmp_path / "in", 24)
    filter_shards(source, tmp_path / "alone", Recipe(where=WHERE), RunOptions(jobs=0))

    def there() -> list[psutil.Process]:
        return [
            process
            for process in workers(site)
            if cluster.raylet in {parent.pid for parent in process.parents()}
        ]

    def lose(suspended: list[psutil.Process]) -> None:
        cluster.lose_node()
        for process in suspended:
            process.kill()

    killing = Meanwhile(site, there, lose)
    report = filter_shards(
        source, tmp_path / "out", Recipe(where=WHERE), on(cluster, begin=killing)
    )
    cluster.add_node()
    assert killing.happened
    assert [record.name for record in report.records] == [
        f"{number:05d}.tar" for number in range(24)
    ]
    assert report.total("samples") == 24 * 30
    assert digests(tmp_path / "out") == digests(tmp_path / "alone")
    assert capfd.readouterr().out == ""  # a report may go there


@pytest.mark.deep
def test_a_node_that_joins_a_run_works_in_it_and_may_leave_again(
    tmp_path: Path, cluster: Cluster, site: str
):
    source = many_shards(tmp_path / "in", 40)
    filter_shards(source, tmp_path / "alone", Recipe(where=WHERE), RunOptions(jobs=0))
    cluster.lose_node()  # the run begins on one node
    before = {process.pid for process in workers(site)}

    def begin(total: int, what: str) -> Callable[[Any], None]:
        return seen.append

    def joined() -> list[psutil.Process]:
        return [
            process
            for process in workers(site)
            if cluster.raylet in {parent.pid for parent in process.parents()}
        ]

    seen: list[Any] = []
    ended: list[BaseException | None] = []

    def filter_all() -> None:
        try:
            filter_shards(source, tmp_path / "out", Recipe(where=WHERE), on(cluster, begin=begin))
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    running = threading.Thread(target=filter_all)
    running.start()
    while (
        not (first := [process for process in workers(site) if process.pid not in before])
        and not ended
    ):
        time.sleep(0.01)
    for process in first:
        process.suspend()  # nothing is answered before the other node works
    cluster.add_node()
    while not (theirs := joined()) and not ended:
        time.sleep(0.05)
    count = len(seen)
    while len(seen) < count + 3 and not ended:  # the new node has finished some
        time.sleep(0.01)
    assert not ended
    theirs[0].suspend()
    cluster.lose_node()
    theirs[0].kill()
    for process in first:
        process.resume()
    running.join()
    cluster.add_node()
    assert ended == [None]
    assert digests(tmp_path / "out") == digests(tmp_path / "alone")


def mortal(task: tuple[str, int], _: object) -> int:
    """Kill the actor that works on a task, for its first attempts.

    Returns how many attempts there were before. The task has a folder and the number of attempts to
    kill.
    """
    folder, deaths = task
    attempts = len(os.listdir(folder))
    Path(folder, str(attempts)).touch()
    if attempts < deaths:
        os.kill(psutil.Process().parents()[1].pid, signal.SIGKILL)  # above the keeper
        time.sleep(60)  # until the actor's end is that of its worker
    return attempts


@pytest.mark.parametrize(
    "deaths",
    # Each starts an actor.
    [
        1,
        *(pytest.param(deaths, marks=pytest.mark.deep) for deaths in (NODE_LOSSES - 1, 99)),
    ],
)
def test_a_task_whose_actor_is_lost_is_tried_again_by_another_and_then_given_up(
    tmp_path: Path, cluster: Cluster, deaths: int
):
    with connect_to_cluster(cluster.address) as start:
        engine = start(partial(RayEngine, function=mortal, site=Site()))
        engine.submit((str(tmp_path), deaths))
        _, answer = engine.next()
        engine.close()
    assert len(os.listdir(tmp_path)) == min(deaths + 1, NODE_LOSSES)
    if deaths < NODE_LOSSES:
        assert answer == deaths
    else:
        assert isinstance(answer, WorkerFailure)
        assert f"lost {NODE_LOSSES} times" in answer.text


@pytest.mark.deep
def test_workers_that_are_killed_change_nothing(tmp_path: Path, cluster: Cluster, site: str):
    source = many_shards(tmp_path / "in", 24)
    filter_shards(source, tmp_path / "alone", Recipe(where=WHERE), RunOptions(jobs=0))

    killed: list[psutil.Process] = []

    def one_actor() -> list[psutil.Process]:
        found = workers(site)
        if len(found) < 2:
            return []
        # The second is the actor that looks after one.
        killed.extend((found[0], found[1].parents()[1]))
        return [killed[1]]

    def kill(suspended: list[psutil.Process]) -> None:
        for process in killed:
            process.kill()

    killing = Meanwhile(site, one_actor, kill)
    report = filter_shards(
        source, tmp_path / "out", Recipe(where=WHERE), on(cluster, begin=killing)
    )
    assert killing.happened
    assert report.total("samples") == 24 * 30
    assert digests(tmp_path / "out") == digests(tmp_path / "alone")
    assert workers(site) == []


def run(site: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wdsflow", *map(str, words)],
        env={**os.environ, "PYTHONPATH": site},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.deep
def test_a_sample_that_kills_whoever_touches_it_is_put_aside_as_on_one_machine(
    tmp_path: Path, cluster: Cluster, site: str
):
    source = write_shards(tmp_path / "in", shards=1, samples=10)
    for out, more in (
        ("alone", ("--jobs", 1)),
        ("out", ("--engine", "ray", "--address", cluster.address)),
    ):
        done = run(site, "filter", source, "-o", tmp_path / out, "--where", "killer == 1", *more)
        printed, errors = done.communicate()
        assert done.returncode == 0, errors
        assert "quarantined: killed-worker" in printed
    assert digests(tmp_path / "out") == digests(tmp_path / "alone")


@pytest.mark.deep
def test_an_interrupted_run_ends_cleanly_and_goes_on_with_another_engine(
    tmp_path: Path, cluster: Cluster, site: str
):
    source = many_shards(tmp_path / "in", 60)
    filter_shards(source, tmp_path / "alone", Recipe(where=WHERE), RunOptions(jobs=0))
    words = ("filter", source, "-o", tmp_path / "out", "--where", WHERE)
    process = run(site, *words, "--engine", "ray", "--address", cluster.address)
    manifest = tmp_path / "out" / ".wdsflow" / "manifest.jsonl"
    while process.poll() is None and not (manifest.exists() and manifest.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "interrupted; to resume: wdsflow filter " in errors
    assert "Traceback" not in errors
    assert printed == ""
    assert workers(site) == []
    assert not list((tmp_path / "out").rglob("*.tmp"))
    report = filter_shards(source, tmp_path / "out", Recipe(where=WHERE), RunOptions(jobs=0))
    assert 0 < report.resumed < 60
    assert digests(tmp_path / "out") == digests(tmp_path / "alone")


@pytest.mark.deep
def test_validation_finds_what_one_process_finds(tmp_path: Path, cluster: Cluster):
    source = Path(write_shards(tmp_path / "in", shards=3, samples=10))
    write_tar(
        source / "00003.tar",
        [*entries(3, 10), ("0030099.jpg", b"no picture"), ("0030099.txt", b"")],
    )
    (source / "00004.tar").write_bytes((source / "00000.tar").read_bytes()[:10_000])
    urls = [*map(str, sorted(source.glob("*.tar"))), str(source / "none.tar")]
    alone = check(urls, ["open-clip-3.3"], jobs=1)
    seen: list[str] = []
    tell = lambda total: lambda shard: seen.append(shard.url)  # noqa: E731
    together = check(urls, ["open-clip-3.3"], engine="ray", address=cluster.address, progress=tell)
    assert sorted(seen) == sorted(urls)
    for report in (alone, together):
        report.evidence.seconds = 0
    assert replace(together, seconds=0) == replace(alone, seconds=0)


@pytest.mark.deep
def test_a_node_without_the_shards_ends_the_run_with_its_name(cluster: Cluster):
    task = ScanTask(0, single_shard("/nowhere/a.tar"), ScanOptions())
    with connect_to_cluster(cluster.address) as start:
        for site, why in (
            (Site(shared_paths=("/nowhere/a.tar",)), "does not see /nowhere"),
            (Site(version="0"), "and 0 where"),
        ):
            engine = start(partial(RayEngine, function=scan_task, site=site))
            engine.submit(task)
            with pytest.raises(EngineError, match=why):
                engine.next()
            engine.close()


@pytest.mark.deep
def test_an_address_where_nobody_listens_is_told_at_once(tmp_path: Path):
    source = write_shards(tmp_path / "in", shards=1, samples=1)
    with pytest.raises(EngineError, match="no Ray cluster at"):
        check(source, engine="ray", address="127.0.0.1:9")
    with pytest.raises(ValueError, match="an address is for the engine ray"):
        check(source, address="127.0.0.1:9")


def test_a_missing_ray_is_told_with_the_way_to_get_it(tmp_path: Path):
    (tmp_path / "ray.py").write_text("raise ImportError('no Ray here')")
    source = write_shards(tmp_path / "in", shards=1, samples=1)
    for words in (
        ("validate", source),
        ("filter", source, "-o", tmp_path / "out", "--where", "width > 1"),
    ):
        done = run(os.pathsep.join([str(tmp_path), str(ROOT)]), *words, "--engine", "ray")
        _, errors = done.communicate()
        assert done.returncode == 2
        assert f": {install_extras('ray')}\n" in errors


class AddressEngine(Engine[Any]):
    """Answers with the address of the cluster, as ``RayEngine`` prints it."""

    def __init__(self, ray: Any) -> None:
        self._address = ray.get_runtime_context().gcs_address

    @property
    def most_under_way(self) -> int:
        return 1

    def submit(self, task: Any) -> None:
        """Take no task."""

    def next(self) -> tuple[Any, Any]:
        return None, self._address

    def close(self) -> None:
        """Nothing is under way."""


@pytest.mark.deep
def test_the_command_for_what_is_in_use_shows_the_cores_of_the_cluster(cluster: Cluster) -> None:
    with connect_to_cluster(cluster.address) as start:
        _, address = start(AddressEngine).next()
    program = Path(sys.executable).with_name("ray")
    done = subprocess.run(
        [program, "status", "--address", address], capture_output=True, text=True, check=True
    )
    assert "/2.0 CPU" in done.stdout
