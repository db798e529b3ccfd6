"""Which shards each worker reads, and which workers starve."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.validate.pipeline.really import RealRun, least, scanned
from tests.validate.pipeline.test_probe_pipeline import write
from tests.validate.pipeline.worker_pipelines import shuffled_alike, shuffled_apart
from wdsflow.scan.evidence import Run, Runs, ShardEvidence
from wdsflow.validate.pipeline.probe_pipeline import probe_pipeline
from wdsflow.validate.pipeline.reading import judge_split, split
from wdsflow.validate.pipeline.rewire import PipelineFacts, Rewiring
from wdsflow.validate.verdicts.verdict import Verdict

LIBRARY = Path(__file__).parent / "worker_pipelines.py"
URLS = [f"{number}.tar" for number in range(7)]
SHARDS = [ShardEvidence(url, runs=Runs(Run("a", 0, ()))) for url in URLS]


def judged(name: str, urls: list[str], world_size: int = 1) -> Verdict:
    return probe_pipeline(f"{LIBRARY}:{name}", *scanned(urls), world_size=world_size)


@pytest.mark.webdataset
@pytest.mark.parametrize(
    "names", [("split_by_node", "split_by_worker"), ("split_by_worker", "split_by_node"), ("split_by_node",), ()]
)
@pytest.mark.parametrize("seed", [None, 5])
def test_each_worker_gets_the_shards_that_webdataset_gives_it(
    names: tuple[str, ...], seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import webdataset as wds

    stages = [getattr(wds, name) for name in names]
    pipeline = wds.DataPipeline(wds.SimpleShardList(URLS, seed=seed), *stages, wds.tarfile_to_samples())
    rewiring = Rewiring(URLS, made_for_them=True, singly=True)
    rewiring.rewire(pipeline)
    rewiring.facts.workers = 2
    parts = split(rewiring.facts, SHARDS, 3)
    assert [(each.rank, each.worker) for each in parts] == [(rank, worker) for rank in range(3) for worker in range(2)]
    for each in parts:
        for name, value in {
            "RANK": each.rank,
            "WORLD_SIZE": 3,
            "WORKER": each.worker,
            "NUM_WORKERS": 2,
        }.items():
            monkeypatch.setenv(name, str(value))
        real = wds.DataPipeline(wds.SimpleShardList(URLS, seed=seed), *stages)
        assert [shard.url for shard in each.shards] == [shard["url"] for shard in real]


def facts(**values: object) -> PipelineFacts:
    found = PipelineFacts(source="list", splits=["split_by_node", "split_by_worker"], workers=4)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def test_workers_that_starve_are_named_with_what_follows() -> None:
    assert judge_split(facts(workers=1), SHARDS, [], 1) == ("", "", None)
    assert judge_split(facts(), SHARDS, [], 1) == ("", "", None)
    assert "1 worker of 8 gets no shard, such as worker 3 of rank 1" in judge_split(facts(), SHARDS, [], 2).note
    assert judge_split(facts(endless=True), SHARDS, [], 2).outcome == "stalls"
    assert judge_split(facts(checks_empty=True), SHARDS, [], 2).outcome == "crashes"
    assert judge_split(facts(), SHARDS[:1], [], 2).outcome == "stalls"  # the whole rank 1
    assert judge_split(facts(splits=["single_node_only"]), SHARDS, [], 2).outcome == "crashes"
    assert "each sample comes out 4 times" in judge_split(facts(splits=[]), SHARDS, [], 1).note
    assert "is not known" in judge_split(facts(source=""), SHARDS, [], 2).note
    assert "draws from all shards (4 workers)" in judge_split(facts(source="resampled"), SHARDS, [], 1).note


def test_the_verdict_on_a_pipeline_whose_workers_starve_says_which_of_them(tmp_path: Path) -> None:
    verdict = judged("endless", [write(tmp_path / "0.tar", 3)])  # four workers, and one shard

    assert verdict.outcome in ("stalls", "crashes")  # of webdataset 0.2, and 1.x
    assert verdict.reasons[0].slug == "workers"
    assert "3 workers of 4 get no shard, such as worker 1 of rank 0" in verdict.reasons[0].message


@pytest.mark.deep
@pytest.mark.webdataset
def test_a_loader_with_workers_gives_what_was_predicted(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{number}.tar", 9 + number, start=100 * number, missing=4) for number in range(3)]
    with closing(RealRun("worker_pipelines")) as real:
        came = {name: real.run(name, urls)["count"] for name in ("two_workers", "by_hand", "whole_batches")}

    verdict = judged("two_workers", urls)
    assert (verdict.usable, least(verdict)) == (came["two_workers"],) * 2
    twice = judged("by_hand", urls)
    assert 2 * twice.usable == came["by_hand"]
    assert "each sample comes out 2 times" in twice.note
    batches = judged("whole_batches", urls)
    assert least(batches) <= came["whole_batches"] <= batches.usable
    assert judged("endless", urls).outcome in ("stalls", "crashes")  # of webdataset 0.2, and 1.x


@pytest.mark.deep
@pytest.mark.webdataset
def test_workers_that_shuffle_shards_apart_before_they_split_them_leave_some_out(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{shard}.tar", 4, start=4 * shard) for shard in range(8)]

    verdict = judged("shuffled_apart", urls)
    keys = [{key for key, _ in shuffled_apart(urls)} for _ in range(3)]

    assert (least(verdict), verdict.usable) == (16, 32)
    assert all(16 <= len(each) <= 32 for each in keys)
    assert any(len(each) < 32 for each in keys)  # all three whole: less often than once in 100,000 times
    assert "others not at all" in verdict.note
    assert "wds.detshuffle" in verdict.note


@pytest.mark.webdataset
def test_workers_that_shuffle_shards_alike_before_they_split_them_read_them_all(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{shard}.tar", 4, start=4 * shard) for shard in range(8)]

    verdict = judged("shuffled_alike", urls)

    assert (verdict.least, verdict.usable) == (None, 32)
    assert len({key for key, _ in shuffled_alike(urls)}) == 32
