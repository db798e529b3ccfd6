import json
import pickle
import shlex
import socket
import threading
from dataclasses import replace

import pytest

from tests.shards.archives import write_tar
from wdsflow import FeedOptions
from wdsflow.scan.evidence import JsonKey, ShardEvidence
from wdsflow.shards.source.base import single_shard
from wdsflow.stages.caption_sources import parse_captions
from wdsflow.training import StallError
from wdsflow.training.stalls import field_fixes, stall
from wdsflow.training.stalls.loss_tally import Damage, FeedLoss, LossTally
from wdsflow.training.stalls.stall import WorkerFacts, peek_json_names

SHARD = "/data/00001.tar"
EMPTY = WorkerFacts(number=2, shards=3, shard=SHARD, usable=0, batch_size=64, passes=1, workers=4)
EVIL = "a\x1b[31m\r\n\u202e\udcff; rm -rf ~"


def stall_message(*, options=None, **given):
    """What a run of wdsflow train says, which has a command line."""
    return stall.stall_message(options=replace(options or FeedOptions(), argv=("...",)), **given)


def test_a_custom_loop_is_told_options_and_arguments_instead_of_commands():
    worker = EMPTY._replace(usable=3, shards=1)
    said = stall.stall_message(tally=tally(kept=120), worker=worker, options=FeedOptions(k=3.0))
    assert 'one share for all workers: FeedOptions(schedule="balanced", k=3.0)' in said
    assert 'fewer workers than 4 (args["workers"]) or args["batch_size"] = 3' in said
    said = stall.stall_message(
        tally=tally(kept=120), worker=EMPTY._replace(usable=90), waited=300.0
    )
    assert "wait longer: FeedOptions(stall_after=3000)" in said
    assert "wdsflow train" not in said


def tally(*losses, kept=0, fields=None, damage=()):
    made = LossTally(kept=kept)
    for count, loss in losses:
        for _ in range(count):
            made.add_loss(loss)
    for names, count in (fields or {}).items():
        for _ in range(count):
            made.count_fields(names)
    for item in damage:
        made.add_damage(item)
    return made


@pytest.fixture
def shard(tmp_path):
    """Return a shard of images and json, captions under "description"."""
    path = tmp_path / "with json.tar"
    members = []
    for index in range(3):
        members.append((f"{index}.jpg", b"jpeg"))
        value = {
            "id": f"{index:016x}",
            "url": "https://a.example/b.jpg",
            "description": f"a picture, number {index}",
        }
        members.append((f"{index}.json", json.dumps(value).encode()))
    return write_tar(path, members)


def commands(message):
    """Return the commands of the fixes, as a shell would split them."""
    fixes = message.split("To fix it:\n")[1].splitlines()
    return [shlex.split(fix[fix.index("wdsflow ") :]) for fix in fixes if "wdsflow " in fix]


def lacking_captions(url, count=300):
    return tally(
        (count, FeedLoss("select", "no-caption", "0001", single_shard(str(url)), "jpg, json")),
        fields={("jpg", "json"): count},
    )


def test_it_names_rank_worker_stage_reason_count_fields_example_and_shard(shard):
    lines = stall_message(
        tally=lacking_captions(shard), worker=EMPTY, rank=1, world_size=2
    ).splitlines()
    assert lines[0] == (
        "rank 1 of 2, worker 2: a whole pass over its 3 shards gave 0 usable samples, a batch needs 64. "
        "OpenCLIP's own loader would hang."
    )
    assert lines[1] == "Of 300 samples seen on this rank, 300 were lost:"
    assert lines[2] == f"  select: no-caption 300 (first: 0001 in {shard}: jpg, json)"
    assert lines[3] == "Fields of samples that lack something: jpg, json (300)"
    assert len(lines) <= 12


def test_captions_in_json_are_found_there_by_name(shard):
    options = FeedOptions(max_pixels=9)
    found = commands(stall_message(tally=lacking_captions(shard), worker=EMPTY, options=options))
    assert [
        "wdsflow",
        "train",
        "--caption",
        "json:description",
        "--max-pixels",
        "9",
        "--",
        "...",
    ] in found
    assert ["wdsflow", "validate", str(shard)] in found


def test_of_json_that_cannot_be_read_again_the_command_is_given_that_shows_its_names():
    found = commands(stall_message(tally=lacking_captions("/nowhere/a.tar"), worker=EMPTY))
    assert found[0] == ["wdsflow", "inspect", "/nowhere/a.tar"]


def test_a_wrong_name_in_json_is_replaced_by_one_that_is_there(shard):
    lost = tally((9, FeedLoss("caption", "no-caption", "0", single_shard(str(shard)))))
    found = commands(
        stall_message(tally=lost, worker=EMPTY, options=FeedOptions(caption="json:caption"))
    )
    assert found[0][:4] == ["wdsflow", "train", "--caption", "json:description"]


def test_an_image_under_another_name_is_named():
    lost = tally(
        (9, FeedLoss("select", "no-image", "1", single_shard(SHARD), "input.jpg, txt")),
        fields={("input.jpg", "txt"): 9},
    )
    assert ["wdsflow", "train", "--image", "input.jpg", "--", "..."] in commands(
        stall_message(tally=lost, worker=EMPTY)
    )


def test_captions_in_another_member_are_named():
    lost = tally(
        (9, FeedLoss("select", "no-caption", "1", single_shard(SHARD), "jpg, text")),
        fields={("jpg", "text"): 9},
    )
    assert ["wdsflow", "train", "--caption", "text", "--", "..."] in commands(
        stall_message(tally=lost, worker=EMPTY)
    )


def test_too_few_samples_for_a_batch_ask_for_fewer_workers_smaller_batches_or_the_other_schedule():
    worker = EMPTY._replace(usable=3, shards=1)
    said = stall_message(tally=tally(kept=120), worker=worker)
    assert "over its only shard gave 3 usable samples, a batch needs 64" in said
    assert ["wdsflow", "train", "--schedule", "balanced", "--", "..."] in commands(said)
    assert "fewer workers than 4 (--workers) or --batch-size 3" in said
    balanced = stall_message(
        tally=tally(kept=120), worker=worker, options=FeedOptions(schedule="balanced")
    )
    assert "one share for all workers" not in balanced


def test_a_worker_without_shards_is_told_so():
    said = stall_message(tally=LossTally(), worker=WorkerFacts(5, 0, "", 0, 64, 0, 8), waited=300)
    assert "rank 0, worker 5: no batch for 300 s; this worker has no shard to read" in said
    assert "No sample was seen." in said
    assert "--stall-after" not in said


def test_damage_is_shown_and_can_be_repaired():
    shards = [f"/data/{index}.tar" for index in range(9)]
    lost = tally(
        (5, FeedLoss("read", "truncated", "7", single_shard(shards[0]))),
        damage=[Damage(single_shard(url), "truncated-data", "ends at byte 5") for url in shards],
    )
    said = stall_message(tally=lost, worker=EMPTY)
    assert f"Damaged: {shards[0]}: truncated-data, ends at byte 5" in said
    assert "and 6 more shards" in said
    assert ["wdsflow", "repair", shards[0], "-o", "repaired"] in commands(said)


def test_slow_data_may_be_waited_for_longer():
    said = stall_message(tally=tally(kept=500), waited=300.4)
    assert said.startswith(
        "rank 0: no batch for 300 s.\nOf 500 samples seen on this rank, none was lost.\n"
    )
    assert ["wdsflow", "train", "--stall-after", "3000", "--", "..."] in commands(said)
    assert "would hang" not in said


def test_many_reasons_are_cut_to_the_most_frequent():
    losses = [
        (count, FeedLoss("decode", f"reason-{count}", "k", single_shard(SHARD)))
        for count in range(1, 8)
    ]
    said = stall_message(tally=tally(*losses), lost_in_a_row=28)
    assert "rank 0: 28 samples lost in a row." in said
    assert said.index("reason-7 7") < said.index("reason-4 4")
    assert "reason-3" not in said
    assert "and 3 more reasons: 6" in said


def test_text_from_data_cannot_move_a_cursor_break_a_line_or_run_a_command():
    lost = tally(
        (5, FeedLoss("select", "no-image", EVIL, single_shard(EVIL), EVIL)),
        fields={(EVIL, f"{EVIL}.jpg"): 5},
        damage=[Damage(single_shard(EVIL), "unreadable", EVIL)],
    )
    said = stall_message(tally=lost, worker=EMPTY._replace(shard=EVIL))
    assert all(line.isprintable() for line in said.splitlines())
    assert len(said.splitlines()) <= 12
    for line in said.splitlines():
        if "wdsflow repair" in line:
            assert line.endswith("-o repaired")
            assert "$'" in line
            assert "; rm -rf ~'" in line


def test_the_error_survives_pickling():
    error = pickle.loads(pickle.dumps(StallError("why\nand how")))
    assert type(error) is StallError
    assert str(error) == "why\nand how"


def test_a_peek_counts_the_names_in_json(shard):
    found = peek_json_names(single_shard(str(shard)), "json")
    assert (found.samples, found.json_keys["description"].strings) == (3, 3)
    assert found.json_keys["description"].example == "a picture, number 0"


@pytest.mark.parametrize("url", ["/nowhere/a.tar", "pipe:echo {}", "http://[bad"])
def test_a_peek_where_nothing_can_be_had_finds_nothing(url):
    assert peek_json_names(single_shard(url), "json") is None


def test_a_peek_does_not_wait_for_storage_that_hangs():
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and never answers
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.tar"
        assert peek_json_names(single_shard(url), "json") is None
        assert any(thread.name == "wdsflow-peek" for thread in threading.enumerate())


def test_settings_are_told_as_they_are_written_in_python():
    options = FeedOptions(fields=("jpg", "txt|json:it's"), caption_probs=(0.25, 0.75))
    said = field_fixes.rerun_command(options, image='a"b')
    assert said == (
        "wdsflow.feed(..., fields=('a\"b', \"txt|json:it's\"), caption_probs=(0.25,0.75))"
    )
    assert field_fixes.resume_command(options) == "feed.load_state_dict(state)"


def test_of_many_names_in_json_the_most_frequent_are_told():
    def evidence(**keys):
        return ShardEvidence(single_shard("0.tar"), samples=30, json_keys=keys)

    captions = parse_captions("json:alt")
    assert (
        field_fixes.json_names_problem(captions, [evidence()])
        == "no json of 30 checked samples has alt"
    )
    few = {f"n{number:02d}": JsonKey(count=number + 1) for number in range(12)}
    names = ", ".join(f"n{number:02d}" for number in range(11, 0, -1))
    told = "no json of 30 checked samples has alt; it has"
    assert (
        field_fixes.json_names_problem(captions, [evidence(**few)])
        == f"{told} {names} and n00, without text"
    )
    many = {**few, "x": JsonKey(), "y": JsonKey()}
    names = names.replace(" n00", "")
    assert (
        field_fixes.json_names_problem(captions, [evidence(**many)])
        == f"{told} {names}, n00 and 2 more, without text"
    )
