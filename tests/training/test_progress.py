import logging
import subprocess
import sys

import pytest

from tests.clock import Clock
from wdsflow import FeedOptions
from wdsflow.shards.source.base import single_shard
from wdsflow.training.stalls import progress as progress_module
from wdsflow.training.stalls.loss_tally import (
    Damage,
    FeedLoss,
    LossTally,
    log_critical,
    log_or_print,
)
from wdsflow.training.stalls.progress import Progress

NEVER = 1e9


@pytest.fixture(autouse=True)
def heard(caplog):
    caplog.set_level(logging.INFO, logger="wdsflow.training")
    return caplog


def lines(heard):
    return [(record.levelname, record.getMessage()) for record in heard.records]


def lose(tally, count, reason="no-caption", stage="select"):
    for index in range(count):
        tally.add_loss(
            FeedLoss(stage, reason, f"key-{index}", single_shard("/data/00001.tar"), "jpg")
        )


def progress(status_every=1e-9, **arguments):
    return Progress(FeedOptions(status_every=status_every), **arguments)


def test_the_status_line_says_where_it_is_how_fast_and_what_was_lost(heard):
    tally = LossTally(kept=1000)
    lose(tally, 5)  # of an epoch before: not counted here
    feed = progress()
    feed.begin(3, 500, tally, 7.0)
    tally.kept += 30_708
    lose(tally, 10)
    lose(tally, 2, "truncated", "decode")
    feed.step(64, 120, tally, 7.0)
    [(level, line)] = lines(heard)
    assert level == "INFO"
    assert line.startswith("feed: epoch 3, batch 120/500, ")
    assert line.endswith(
        " samples/s, training waited 0 % of the time, lost 12 of 30,720 (no-caption 10, truncated 2)"
    )


def test_speed_and_waiting_are_of_the_time_since_the_last_line(heard, monkeypatch):
    clock = Clock(monkeypatch, progress_module)
    feed, tally = progress(), LossTally()
    feed.begin(0, 9, tally, 0.0)
    clock.sleep(4)
    feed.step(64, 1, tally, 3.0)  # waited for three of four seconds
    clock.sleep(2)
    feed.step(0, 2, tally, 3.0)
    (_, first), (_, second) = lines(heard)
    assert ", 16 samples/s, training waited 75 % of the time, lost none of 0" in first
    assert ", 0 samples/s, training waited 0 % of the time" in second


def test_nothing_is_said_before_it_is_time(heard):
    feed, tally = progress(NEVER), LossTally()
    feed.begin(0, 9, tally, 0.0)
    feed.step(64, 1, tally, 0.0)
    feed.wait(29, tally, 0.0)
    assert lines(heard) == []


def test_the_table_has_shares_examples_notes_and_damaged_shards(heard):
    tally = LossTally()
    feed = progress(NEVER, world_size=8)
    feed.begin(2, 10, tally, 0.0)
    tally.kept = 993
    lose(tally, 5)
    lose(tally, 2, "truncated", "decode")
    tally.noted["truncated-caption"] += 20
    for index in range(25):
        tally.add_damage(Damage(single_shard(f"/data/{index}.tar"), "silent", "ends at byte 512"))
    feed.step(640, 10, tally, 0.0)
    feed.end(tally, 0.0)
    [(level, table)] = lines(heard)
    assert level == "WARNING"  # of the damage
    head, *rows = table.splitlines()
    assert head.startswith("feed: epoch 2 done (rank 0 of 8): 10 of 10 batches, 640 samples, ")
    assert " samples/s on this rank (about " in head
    assert " on all 8), training waited 0 % of the time" in head
    assert [row.split() for row in rows[:3]] == [
        ["seen", "1,000", "100.0", "%"],
        ["kept", "993", "99.3", "%"],
        ["lost", "7", "0.7", "%"],
    ]
    assert rows[3].split("  first: ")[1] == "key-0 in /data/00001.tar (jpg)"
    assert rows[3].split()[:5] == ["select:", "no-caption", "5", "0.5", "%"]
    assert rows[4].split()[:5] == ["decode:", "truncated", "2", "0.2", "%"]
    assert rows[5].split() == ["noted:", "truncated-caption", "20", "2.0", "%"]
    assert rows[6] == "  damaged: /data/0.tar: silent, ends at byte 512"
    assert rows[-1] == "  damaged: 5 more"
    assert len(rows) == 6 + 20 + 1


def test_a_good_epoch_is_told_as_news_not_as_a_warning(heard):
    feed, tally = progress(NEVER), LossTally()
    feed.begin(0, 1, tally, 0.0)
    tally.kept = 1000
    lose(tally, 1)
    feed.end(tally, 0.0)
    assert [level for level, _ in lines(heard)] == ["INFO"]


@pytest.mark.parametrize(
    ("lost", "damaged", "waited", "said"),
    [
        (0, False, 0.0, None),
        (1, False, 0.0, None),
        (30, False, 0.0, "WARNING"),
        (0, True, 0.0, "WARNING"),
        (0, False, 9.0, "INFO"),
    ],
)
def test_other_ranks_speak_once_an_epoch_and_only_of_trouble(heard, lost, damaged, waited, said):
    feed, tally = progress(rank=5, world_size=64), LossTally()
    feed.begin(0, 2, tally, 0.0)
    tally.kept = 1000
    lose(tally, lost)
    if damaged:
        tally.add_damage(Damage(single_shard("/data/7.tar"), "silent", ""))
        tally.add_damage(Damage(single_shard("/data/7.tar"), "truncated-data", ""))
        tally.add_damage(Damage(single_shard("/data/8.tar"), "silent", ""))
    feed.step(64, 1, tally, 0.0)
    feed.end(tally, waited)
    if said is None:
        assert lines(heard) == []
        return
    [(level, line)] = lines(heard)
    assert level == said
    assert line.startswith("feed of rank 5: epoch 0, batch 1/2, ")
    assert ("damaged: /data/7.tar and 1 more" in line) == damaged


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("lost", "levels"), [(0, []), (30, ["WARNING"])])
def test_status_off_leaves_only_trouble(heard, lost, levels, rank):
    feed, tally = progress(0, rank=rank, world_size=2), LossTally(kept=1000)
    feed.begin(0, 2, LossTally(), 0.0)
    lose(tally, lost)
    feed.step(64, 1, tally, 0.0)
    feed.wait(1000, tally, 0.0)
    feed.end(tally, 1000.0)
    assert [level for level, _ in lines(heard)] == levels


def test_a_long_wait_is_said_ever_more_rarely_and_again_after_the_next_batch(heard):
    feed, tally = progress(10, rank=3, world_size=4), LossTally()
    feed.begin(0, 2, tally, 0.0)
    lose(tally, 40)
    for seconds in range(130):
        feed.wait(seconds, tally, 0.0)
    said = [line for level, line in lines(heard) if level == "WARNING"]
    assert [line.split("no batch for ")[1].split(" s")[0] for line in said] == ["30", "60", "120"]
    assert (
        said[0]
        == "feed of rank 3: epoch 0, batch 0/2: no batch for 30 s, lost 40 of 40 (no-caption 40)"
    )
    feed.step(64, 1, tally, 0.0)
    feed.wait(31, tally, 0.0)
    assert len(lines(heard)) == 4


def test_text_from_data_stays_on_its_line(heard):
    feed, tally = progress(), LossTally()
    feed.begin(0, 2, tally, 0.0)
    evil = "a\x1b[31m\nfeed: all is well\u202e\udcff"
    tally.add_loss(FeedLoss("decode", "truncated", evil, single_shard(evil), evil))
    tally.add_damage(Damage(single_shard(evil), "silent", evil))
    feed.step(64, 1, tally, 0.0)
    feed.end(tally, 0.0)
    told = lines(heard)
    assert any("all is well" in text for _, text in told)
    for _, text in told:
        assert all(line.isprintable() for line in text.splitlines())
        assert not any(line.startswith("feed: all is well") for line in text.splitlines())


def run(statement):
    script = f"import logging\nfrom wdsflow.training.stalls.loss_tally import log_critical, log_or_print\n{statement}"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )


def test_a_program_that_has_not_set_up_logging_reads_stderr_and_no_text_twice():
    assert (
        run("log_or_print(logging.INFO, 'news'); log_critical('alarm')").stderr == "news\nalarm\n"
    )


def test_a_program_that_has_set_up_logging_gets_records_at_its_level():
    done = run(
        "logging.basicConfig(format='%(name)s %(message)s'); log_or_print(logging.INFO, 'news'); log_critical('alarm')"
    )
    assert done.stderr == "wdsflow.training alarm\n"


def test_an_alarm_is_on_stderr_even_where_logs_go_to_a_file(tmp_path):
    path = tmp_path / "log"
    done = run(
        f"logging.basicConfig(filename={str(path)!r}); log_or_print(logging.INFO, 'news'); log_critical('alarm')"
    )
    assert done.stderr == "alarm\n"
    assert "alarm" in path.read_text()


@pytest.mark.usefixtures("new_interpreters")
def test_no_stderr_is_no_reason_to_fail():
    run("import sys; sys.stderr = None; log_or_print(logging.INFO, 'news'); log_critical('alarm')")


def test_say_and_cry_are_records_of_one_logger(heard):
    log_or_print(logging.INFO, "100 %s")
    log_critical("alarm")
    assert [(record.name, record.getMessage()) for record in heard.records] == [
        ("wdsflow.training", "100 %s"),
        ("wdsflow.training", "alarm"),
    ]
