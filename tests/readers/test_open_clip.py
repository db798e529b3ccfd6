import random
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.shapes import outcomes, shape
from wdsflow.readers import OpenClip4, OpenClip33, Options
from wdsflow.readers.open_clip.versions import (
    Buffers,
    epoch_length,
    epoch_order,
    resampled,
    saves_at,
    shuffled,
    split_among_workers,
    why_no_checkpoints,
    worker_seed,
    worker_share,
)
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop

OLD = OpenClip33()


def new(**options: object) -> OpenClip4:
    return OpenClip4(Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", ["usable"]),
        ("TXT Jpg", ["usable"]),
        ("webp txt json", ["usable"]),
        ("jpg png txt", ["usable"]),
        ("jpg json", ["no-caption"]),
        ("txt", ["no-image"]),
        ("gif txt", ["no-image"]),
        ("v1.jpg txt", ["no-image"]),
        ("jpg txt.gz", ["no-caption"]),
        ("json", ["no-image-or-caption"]),
        ("jpg txt cls:bad", ["bad-field cls"]),
        ("jpg txt seg.png:bad", ["bad-field seg.png"]),
        ("jpg txt .jpg:bad", ["bad-field .jpg"]),
        ("jpg txt text:not-utf8", ["bad-field text"]),
        ("jpg txt json:bad", ["bad-field json"]),
        ("jpg txt json:no-caption", ["usable"]),
        ("jpg txt x.gz:not-zipped", ["bad-field x.gz"]),
        ("jpg txt note:bad", ["usable"]),
        ("jpg txt pyd:unsafe", ["usable"]),
        ("jpg txt:not-utf8", ["bad-caption txt"]),
        ("jpg txt:empty", ["usable"]),
        ("jpg txt:blank", ["usable"]),
        ("jpg:bad txt", ["bad-image jpg"]),
        ("jpg:empty txt", ["bad-image jpg"]),
        ("jpg png:bad txt", ["bad-field png"]),
        ("jpg:bomb txt", ["too-large jpg"]),
        ("jpg:big txt", ["usable"]),
        ("jpg:big-bad txt", ["bad-image jpg"]),
        ("jpg:? txt:?", ["usable"]),
    ],
)
def test_the_old_pipeline_decodes_every_field(members: str, expected: list[str]) -> None:
    assert outcomes(OLD, members) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt jpg", ["usable", "no-caption"]),
        ("jpg JPG txt", ["no-caption", "usable"]),
        ("jpg txt jpg txt", ["usable", "usable"]),
        ("jpg __url__ txt", ["no-caption", "no-image"]),
        ("__url__ jpg txt", ["usable"]),
        ("__key__ jpg txt", ["no-image-or-caption", "usable"]),
        ("jpg __KEY__ txt", ["no-caption", "no-image-or-caption", "no-image"]),
        ("jpg txt __bad__", ["marked-bad __bad__"]),
        ("jpg txt __BAD__", ["marked-bad __bad__"]),
        ("jpg txt __bad__:empty", ["usable"]),
        ("jpg txt jpg txt __bad__", ["usable", "marked-bad __bad__"]),
    ],
)
def test_a_repeated_or_reserved_field_begins_a_new_sample(
    members: str, expected: list[str]
) -> None:
    assert outcomes(OLD, members) == expected
    assert outcomes(new(), members) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt cls:bad seg.png:bad json:bad", ["usable"]),
        ("png:bad jpg txt", ["usable"]),
        ("jpg:bad png txt", ["bad-image jpg"]),
        ("jpg txt:empty", ["empty-caption txt"]),
        ("jpg txt:blank", ["empty-caption txt"]),
        ("jpg txt:not-utf8", ["bad-caption txt"]),
        ("jpg:bad txt:empty", ["empty-caption txt"]),
        ("jpg:big txt", ["too-large jpg"]),
        ("jpg:big-bad txt", ["too-large jpg"]),
        ("jpg:bomb txt", ["too-large jpg"]),
        ("jpg json", ["no-caption"]),
    ],
)
def test_the_new_pipeline_decodes_only_what_it_chose(members: str, expected: list[str]) -> None:
    assert outcomes(new(), members) == expected


def test_the_new_pipeline_takes_the_first_key_that_is_there() -> None:
    reader = new(image_key="seg.png;jpg", text_key="caption;txt")

    assert outcomes(reader, "jpg:bad seg.png caption txt:empty") == ["usable"]
    assert outcomes(reader, "png txt") == ["no-image"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("ok", "usable"),
        ("no-caption", "no-caption json"),
        ("bad", "bad-caption json"),
        ("empty", "bad-caption json"),
    ],
)
def test_captions_from_json_need_a_string_under_a_wanted_name(status: str, expected: str) -> None:
    assert outcomes(new(json_text_key="caption"), f"jpg json:{status}") == [expected]
    assert outcomes(new(json_text_key="caption"), "jpg txt") == ["no-caption"]


def test_large_images_pass_without_a_limit() -> None:
    assert outcomes(new(max_image_pixels=0), "jpg:big txt") == ["usable"]


def test_spaces_between_keys_pass_the_filter_and_fail_the_renaming() -> None:
    reader = new(image_key="png; jpg")

    assert outcomes(reader, "txt") == ["no-image"]
    assert outcomes(reader, "jpg txt") == ["crash spaced-key png; jpg"]


def test_an_empty_key_counts_for_the_renaming_only() -> None:
    reader = new(text_key="caption;;txt")

    assert outcomes(reader, "jpg .") == ["no-caption"]
    assert [fate.kind for fate in reader.fates(shape("jpg .:empty txt"))] == ["dropped"]


@pytest.mark.parametrize("kind", ["end", "eof", "silent", "error", "unreadable"])
def test_openclip_goes_on_with_the_open_sample_whatever_ends_a_shard(kind: str) -> None:
    stop = Stop(kind)  # type: ignore[arg-type]

    assert OLD.crash_at_stop(stop) is None
    assert OLD.joins
    assert OLD.empty_stalls


def names(workers: list[list[ShardEvidence]]) -> list[str]:
    return ["".join(shard.url for shard in worker) for worker in workers]


def test_the_order_of_shards_depends_on_seed_plus_epoch() -> None:
    shards = [ShardEvidence(single_shard(letter)) for letter in "abcdefgh"]

    def order(**options: int) -> list[str]:
        return names(OpenClip33(Options(**options)).order(shards))  # type: ignore[arg-type]

    assert order(seed=3, epoch=1) == order(seed=4, epoch=0) != order(seed=3, epoch=0)
    assert order(seed=0) == ["".join(epoch_order("abcdefgh", 0, Buffers()))] != ["abcdefgh"]
    assert order(seed=-1) == order(seed=-1, epoch=1) == ["abcdefgh"]
    assert sorted("".join(order(workers=3, world_size=2))) == list("abcdefgh")
    assert [len(part) for part in order(workers=3, world_size=2)] == [2, 1, 1, 2, 1, 1]


def test_ranks_take_turns_and_then_workers() -> None:
    assert split_among_workers("abcdefg", 2, 0) == [list("aceg"), list("bdf")]
    assert split_among_workers("abcdefg", 2, 2) == [list("ae"), list("cg"), list("bf"), list("d")]
    assert split_among_workers("a", 1, 3) == [["a"], [], []]


def test_resampling_is_judged_on_one_pass_over_all_shards() -> None:
    shards = [ShardEvidence(single_shard(letter)) for letter in "abc"]

    assert names(OpenClip33(Options(resampled=True, workers=2)).order(shards)) == ["abc"]


def test_a_small_buffer_keeps_late_shards_late() -> None:
    mixed = list(shuffled(range(100), 4, 2, random.Random(0)))

    assert sorted(mixed) == list(range(100))
    assert mixed != list(range(100))
    assert all(item < 2 * place + 4 for place, item in enumerate(mixed))


def test_the_new_pipeline_reads_buffer_sizes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shards = [ShardEvidence(single_shard(letter)) for letter in "abcdefgh"]
    usual = names(new().order(shards))
    monkeypatch.setenv("OPENCLIP_WDS_SHARD_SHUFFLE_SIZE", "1")
    monkeypatch.setenv("OPENCLIP_WDS_SHARD_SHUFFLE_INITIAL", "1")

    assert names(new().order(shards)) == ["abcdefgh"] != usual
    assert names(OLD.order(shards)) == usual


@pytest.mark.webdataset
@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 9), st.integers(0, 5))
def test_the_shuffle_buffer_is_webdatasets(count: int, size: int, initial: int, seed: int) -> None:
    filters = pytest.importorskip("webdataset.filters")
    mixed = list(filters._shuffle(iter(range(count)), size, initial, random.Random(seed)))
    assert list(shuffled(range(count), size, initial, random.Random(seed))) == mixed


def test_shards_are_drawn_as_openclip_draws_them() -> None:
    plain, weighted = random.Random(3), random.Random(3)
    assert list(islice(resampled("abcd", None, 3), 9)) == [plain.choice("abcd") for _ in range(9)]
    assert list(islice(resampled("abc", [1, 0, 5], 3), 9)) == [
        weighted.choices("abc", weights=[1, 0, 5], k=1)[0] for _ in range(9)
    ]


def test_seeds_and_shares_of_workers() -> None:
    assert [worker_seed(7, 2, 3, 1, 4), worker_seed(7, 2, 3, 0, 0), worker_seed(0, 0, 0, 0, 1)] == [
        16,
        3000,
        0,
    ]
    assert [*worker_share(iter(range(12)), 1, 2, 2, 3)] == [5, 11]
    assert [*worker_share(iter(range(3)), 0, 0, 0, 0)] == [0, 1, 2]
    assert split_among_workers("abc", 0, 1) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("samples", "floor", "length"),
    [
        (24, False, (24, 1, 2, 24)),
        (25, False, (25, 2, 4, 48)),
        (25, True, (25, 1, 2, 24)),
        (47, True, (47, 1, 2, 24)),
        (0, False, (0, 0, 0, 0)),
    ],
)
def test_an_epoch_is_rounded_to_batches_of_all_workers(
    samples: int, floor: bool, length: tuple[int, ...]
) -> None:
    found = epoch_length(samples, batch_size=4, world_size=3, workers=2, floor=floor)
    assert (found.requested, found.worker_batches, found.batches, found.samples) == length
    assert found.inflation == (length[3] / samples if samples else float("inf"))
    assert epoch_length(13, 4, 3, 0).batches == 2


@pytest.mark.parametrize(
    ("facts", "completed", "saved"),
    [
        ({"save_frequency": 0}, 5, False),
        ({"save_frequency": 0}, 9, True),
        ({"save_frequency": 3}, 6, True),
        ({"save_frequency": 3}, 7, False),
        ({"save_frequency": 1}, 1, True),
        ({"save_frequency": 0, "save_most_recent": True}, 5, True),
    ],
)
def test_openclip_saves_after_some_epochs(
    facts: dict[str, Any], completed: int, saved: bool
) -> None:
    assert (
        saves_at(SimpleNamespace(**({"epochs": 9, "save_most_recent": False} | facts)), completed)
        is saved
    )


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, ""),
        ({"logs": ""}, "with --logs none OpenCLIP keeps no checkpoints"),
        ({"logs": "None"}, "with --logs none OpenCLIP keeps no checkpoints"),
        ({"horovod": True}, "not with --horovod"),
        ({"fsdp": True, "fsdp_checkpoint": "sharded"}, "not with --fsdp-checkpoint sharded"),
        ({"fsdp": True, "fsdp_checkpoint": "full"}, ""),
        ({"fsdp": True}, ""),
        ({"fsdp_checkpoint": "sharded"}, ""),
    ],
)
def test_checkpoints_inside_of_epochs_are_refused_with_a_reason(
    facts: dict[str, Any], why: str
) -> None:
    assert why_no_checkpoints(SimpleNamespace(**({"logs": "./logs"} | facts))) == why
