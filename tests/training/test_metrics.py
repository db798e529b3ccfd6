import json
import os
import time

import pytest

from wdsflow import FeedOptions
from wdsflow.shards.source.base import single_shard
from wdsflow.training.stalls.loss_tally import Damage, FeedLoss, LossTally
from wdsflow.training.stalls.metrics_file import Metrics, exposition
from wdsflow.training.stalls.progress import Progress
from wdsflow.training.stalls.progress_facts import Facts

EVIL = 'a\\b"c\nd\x1b\u202e\udcff{}'


@pytest.fixture
def tally():
    made = LossTally(kept=1000)
    made.add_loss(FeedLoss("select", "no-caption", "1", single_shard("/data/0.tar")))
    made.add_loss(FeedLoss("select", "no-caption", "2", single_shard("/data/0.tar")))
    made.add_loss(FeedLoss("decode", "truncated", "3", single_shard("/data/1.tar")))
    made.noted["truncated-caption"] += 7
    made.add_damage(Damage(single_shard("/data/0.tar"), "silent", "ends"))
    made.add_damage(Damage(single_shard("/data/0.tar"), "truncated-data", "ends"))
    return made


def facts(tally, **changed):
    made = Facts(2, 120, 500, 7680, 1946.25, 0.031, 12.5, 1120, tally, tally)
    return made._replace(**changed)


def parsed(text):
    """Return samples as Prometheus' own parser reads them: by name and labels."""
    parser = pytest.importorskip("prometheus_client.parser")
    families = list(parser.text_string_to_metric_families(text))
    assert all(family.documentation for family in families)
    assert all(family.type in ("counter", "gauge") for family in families)
    assert len({family.name for family in families}) == len(families)
    rows = [sample for family in families for sample in family.samples]
    found = {(row.name, *sorted(row.labels.items())): row.value for row in rows}
    assert len(found) == len(rows)
    assert all(row.timestamp is None for row in rows)  # node_exporter refuses files with times
    return found


def test_prometheus_reads_what_is_written(tally):
    found = parsed(exposition(facts(tally), 3))
    rank = ("rank", "3")
    assert found == {
        ("wdsflow_samples_total", ("outcome", "kept"), rank): 1000,
        ("wdsflow_samples_total", ("outcome", "lost"), rank): 3,
        ("wdsflow_samples_lost_total", rank, ("reason", "no-caption"), ("stage", "select")): 2,
        ("wdsflow_samples_lost_total", rank, ("reason", "truncated"), ("stage", "decode")): 1,
        ("wdsflow_samples_noted_total", ("note", "truncated-caption"), rank): 7,
        ("wdsflow_damaged_shards", rank): 1,
        ("wdsflow_batches_total", rank): 1120,
        ("wdsflow_wait_seconds_total", rank): 12.5,
        ("wdsflow_epoch", rank): 2,
        ("wdsflow_epoch_batch", rank): 120,
        ("wdsflow_epoch_batches", rank): 500,
        ("wdsflow_samples_per_second", rank): 1946.25,
        ("wdsflow_wait_ratio", rank): 0.031,
    }


def test_counters_of_billions_keep_their_last_digit(tally):
    found = parsed(exposition(facts(tally, batches=12_345_678_901), 0))
    assert found["wdsflow_batches_total", ("rank", "0")] == 12_345_678_901


def test_labels_that_need_it_are_escaped(tally):
    tally.add_loss(FeedLoss(EVIL, EVIL, "1", single_shard("0.tar")))
    text = exposition(facts(tally), 0)
    assert all(line.isprintable() for line in text.splitlines())
    shown = 'a\\b"c\\nd\\x1b\\u202e\\xff{}'  # as people see it everywhere
    assert (
        parsed(text)[
            "wdsflow_samples_lost_total", ("rank", "0"), ("reason", shown), ("stage", shown)
        ]
        == 1
    )


def test_a_prom_file_is_replaced_whole_and_readable_by_the_exporter(tally, tmp_path):
    metrics = Metrics(str(tmp_path / "feed.prom"))
    metrics.write(facts(LossTally()))
    first = metrics.path.stat()
    before = metrics.path.open()  # as a reader in the middle of it
    metrics.write(facts(tally))
    with before:
        assert ("wdsflow_samples_total", ("outcome", "kept"), ("rank", "0")) in parsed(
            before.read()
        )
    assert metrics.path.stat().st_ino != first.st_ino
    assert metrics.path.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert [path.name for path in tmp_path.iterdir()] == ["feed.prom"]


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_json_lines_hold_the_epochs_facts(tally, tmp_path):
    path = tmp_path / "feed.jsonl"
    began = time.time()
    Metrics(str(path)).write(facts(tally))
    Metrics(str(path)).write(facts(tally, done=True))  # as after a restart
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert int(began) <= first["time"] <= time.time() + 1
    del first["time"]
    assert first == {
        "event": "status",
        "rank": 0,
        "world_size": 1,
        "epoch": 2,
        "batch": 120,
        "num_batches": 500,
        "samples": 7680,
        "samples_per_second": 1946.25,
        "wait_ratio": 0.031,
        "waited_seconds": 12.5,
        "seen": 1003,
        "kept": 1000,
        "lost": 3,
        "reasons": [
            {
                "stage": "select",
                "reason": "no-caption",
                "count": 2,
                "key": "1",
                "shard": "/data/0.tar",
            },
            {
                "stage": "decode",
                "reason": "truncated",
                "count": 1,
                "key": "3",
                "shard": "/data/1.tar",
            },
        ],
        "noted": {"truncated-caption": 7},
        "damaged": [["/data/0.tar", "silent", "ends"], ["/data/0.tar", "truncated-data", "ends"]],
    }
    assert second["event"] == "epoch"


def test_json_lines_are_strict_json_whatever_the_data(tally, tmp_path):
    orjson = pytest.importorskip("orjson")
    tally.add_loss(FeedLoss("decode", "truncated", EVIL, single_shard(EVIL), EVIL))
    tally.add_loss(FeedLoss("read", "gone", EVIL, single_shard(EVIL), EVIL))
    tally.add_damage(Damage(single_shard(EVIL), "silent", EVIL))
    Metrics(str(tmp_path / "feed.jsonl")).write(facts(tally))
    [line] = (tmp_path / "feed.jsonl").read_bytes().splitlines()
    assert orjson.loads(line)["reasons"][-1]["key"] == 'a\\b"c\\nd\\x1b\\u202e\\xff{}'


@pytest.mark.parametrize(("world_size", "name"), [(1, "feed.v2.prom"), (4, "feed.v2-rank3.prom")])
def test_each_of_several_ranks_has_a_file(world_size, name, tmp_path):
    assert (
        Metrics(str(tmp_path / "feed.v2.prom"), rank=3, world_size=world_size).path
        == tmp_path / name
    )


@pytest.mark.parametrize("name", ["feed.json", "prom", "feed"])
def test_other_names_are_refused_before_training(name):
    with pytest.raises(ValueError, match=r"name a file \*\.prom"):
        Progress(FeedOptions(metrics=name))


@pytest.mark.parametrize("suffix", [".prom", ".jsonl"])
def test_a_file_that_cannot_be_written_is_said_once(suffix, tmp_path, caplog):
    metrics = Metrics(str(tmp_path / "missing" / f"feed{suffix}"))
    for _ in range(3):
        metrics.write(facts(LossTally()))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "metrics cannot be written, training continues" in record.getMessage()
    assert "missing" in record.getMessage()
    (tmp_path / "missing").mkdir()
    metrics.write(facts(LossTally()))
    assert metrics.path.exists()  # it tries again


def test_progress_writes_at_the_beginning_at_each_interval_while_waiting_and_at_the_end(tmp_path):
    path = tmp_path / "feed.jsonl"
    tally = LossTally()
    feed = Progress(FeedOptions(metrics=str(path), status_every=1e-9))
    feed.begin(1, 2, tally, 0.0)
    tally.kept = 64
    feed.step(64, 1, tally, 1.0)
    feed.wait(5.0, tally, 1.0)
    feed.step(64, 2, tally, 6.0)
    feed.end(tally, 6.0)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [
        (row["event"], row["batch"], row["samples"], row["waited_seconds"]) for row in rows
    ] == [
        ("status", 0, 0, 0.0),
        ("status", 1, 64, 1.0),
        ("status", 1, 64, 6.0),
        ("status", 2, 128, 6.0),
        ("epoch", 2, 128, 6.0),
    ]


def test_counters_go_on_over_epochs(tmp_path):
    path = tmp_path / "feed.prom"
    tally = LossTally()
    feed = Progress(FeedOptions(metrics=str(path), status_every=0), rank=0)
    for epoch in range(2):
        feed.begin(epoch, 1, tally, 0.0)
        tally.kept += 64
        feed.step(64, 1, tally, 0.0)
        feed.end(tally, 0.0)
    found = parsed(path.read_text())
    assert found["wdsflow_batches_total", ("rank", "0")] == 2
    assert found["wdsflow_samples_total", ("outcome", "kept"), ("rank", "0")] == 128
    assert found["wdsflow_epoch", ("rank", "0")] == 1
