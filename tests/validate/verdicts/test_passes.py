"""A pass computed from counted shapes against one walked sample by sample."""

from collections import Counter
from dataclasses import replace
from itertools import chain, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.shapes import shape
from wdsflow.readers import READERS
from wdsflow.readers.base import Fate, Reader
from wdsflow.scan.evidence import Evidence, ShardEvidence, Tally
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import BAD, OK, UNSAFE
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.verdicts.judge import judge
from wdsflow.validate.verdicts.reader_pass import Loss, LossLocation, run_pass

Members = list[tuple[str, Part]]
PARTS = st.builds(Part, st.sampled_from(["jpg", "txt", "json"]), st.sampled_from([OK, OK, OK, BAD]))
SHARDS = st.lists(st.lists(st.tuples(st.sampled_from("abc"), PARTS), max_size=12), max_size=4)


def shard(number: int, members: Members, stop: Stop | None = None) -> ShardEvidence:
    collector = RunCollector()
    for offset, (key, part) in enumerate(members):
        collector.add(key, part, offset)
    return ShardEvidence(
        single_shard(f"{number}.tar"),
        members=len(members),
        stop=stop or Stop(),
        runs=collector.runs(),
    )


def sample(key: str, members: str) -> Members:
    """Return the members of one sample: "jpg txt:bad"."""
    return [(key, part) for part in shape(members)]


def walked(reader: Reader, streams: list[Members]) -> tuple[int, Counter[str], bool]:
    usable, lost = 0, Counter[str]()
    for stream in streams:
        for _, group in groupby(stream, key=lambda member: member[0]):
            for fate in reader.fates(tuple(part for _, part in group)):
                if fate.kind == "crash":
                    return usable, lost, True
                usable += fate.kind == "usable"
                lost[fate.reason] += fate.kind == "dropped"
    return usable, +lost, False


@given(SHARDS)
def test_openclip_joins_samples_across_shards(shards: list[Members]) -> None:
    reader = READERS["open-clip-3.3"]()
    result = run_pass(reader, [shard(number, members) for number, members in enumerate(shards)])
    usable, lost, _ = walked(reader, [list(chain.from_iterable(shards))])

    assert result.usable == usable
    assert (
        Counter({loss.reason: count for loss, count in result.lost.items()}).total() == lost.total()
    )
    assert result.formed == usable + lost.total()
    assert result.crash is None


@given(SHARDS)
def test_webdataset_1_stops_at_the_first_error_and_joins_nothing(shards: list[Members]) -> None:
    reader = READERS["webdataset-1"]()
    result = run_pass(reader, [shard(number, members) for number, members in enumerate(shards)])
    usable, _, crashed = walked(reader, shards)

    assert result.usable == usable
    if usable or crashed:
        assert (result.crash is not None) == crashed
    elif shards:
        assert result.crash is not None
        assert result.crash.reason == "no-samples"


@pytest.mark.parametrize("kind", ["error", "unreadable"])
def test_an_error_in_the_archive_takes_the_open_sample_with_it_where_the_reader_raises(
    kind: str,
) -> None:
    members: Members = [
        ("a", Part("jpg", OK)),
        ("a", Part("txt", OK)),
        ("b", Part("jpg", OK)),
        ("b", Part("txt", OK)),
    ]
    stop = Stop(kind, 99)  # type: ignore[arg-type]
    broken = shard(0, members, stop)

    raising = run_pass(READERS["webdataset-1"](), [broken])
    assert raising.usable == 1
    assert raising.crash is not None
    assert raising.crash_location is not None
    assert raising.crash_location.offset == 99
    assert run_pass(READERS["open-clip-3.3"](), [broken]).usable == 2


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_pass_without_any_sample_ends_in_a_crash_for_some_readers(name: str, count: int) -> None:
    result = run_pass(READERS[name](), [shard(number, []) for number in range(count)])

    if count and name == "webdataset-1":
        assert result.crash == Fate("crash", "group", "no-samples")
        assert result.crash_location == LossLocation("0.tar", None, None)
    elif count and name.startswith("datasets"):  # it looks for the columns of the first samples
        assert result.crash == Fate("crash", "group", "schema")
    elif count and name.startswith("energon"):
        assert result.crash == Fate("crash", "group", "no-index", "0.tar has no sample")
    else:
        assert (result.crash, result.crash_location) == (None, None)


@pytest.mark.parametrize(
    ("members", "stop", "reason"),
    [
        ("", "unreadable", "unreadable-shard"),
        ("jpg txt jpg", "end", "duplicate-field"),
        ("jpg txt __bad__", "end", "no-samples"),
        ("jpg txt", "end", None),
    ],
)
def test_a_crash_that_came_before_is_not_replaced(
    members: str, stop: str, reason: str | None
) -> None:
    found = shard(0, sample("a", members), Stop(stop))  # type: ignore[arg-type]
    crash = run_pass(READERS["webdataset-1"](), [shard(1, []), found]).crash

    assert (crash and crash.reason) == reason


LOSSES = ["jpg txt", "jpg json", "jpg txt __bad__", "jpg:bad txt", "jpg txt cls:bad"]


def test_samples_are_counted_up_to_the_stage_that_they_reach() -> None:
    members = [
        each for key, members in zip("abcde", LOSSES, strict=True) for each in sample(key, members)
    ]
    result = run_pass(READERS["open-clip-3.3"](), [shard(0, members)])

    assert (result.formed, result.complete, result.decoded, result.usable) == (5, 3, 1, 1)
    assert result.lost == {
        Loss("no-caption", ""): 1,
        Loss("marked-bad", "__bad__"): 1,
        Loss("bad-image", "jpg"): 1,
        Loss("bad-field", "cls"): 1,
    }
    assert [(place.key, place.offset) for place in result.first.values()] == [
        ("b", 2),
        ("c", 4),
        ("d", 7),
        ("e", 9),
    ]
    assert {loss: sum(shapes.values()) for loss, shapes in result.shapes.items()} == result.lost


def test_passes_of_several_workers_add_up_and_keep_the_first_places() -> None:
    reader = READERS["open-clip-3.3"]()
    one = run_pass(reader, [shard(0, sample("a", "jpg txt") + sample("b", "jpg json"))])
    other = run_pass(
        reader, [shard(1, sample("c", "jpg json") + sample("d", "json jpg") + sample("e", "jpg"))]
    )
    other.add(Fate("crash", "group", "why"), 1, LossLocation("1.tar", None, 7), ())
    last = run_pass(reader, [shard(2, sample("f", "txt"))])
    last.add(Fate("crash", "group", "later"), 1, LossLocation("2.tar", None, 8), ())
    for each in (other, last):
        one.merge(each)

    assert (one.formed, one.complete, one.decoded, one.usable) == (6, 1, 1, 1)
    assert one.lost == {Loss("no-caption", ""): 4, Loss("no-image", ""): 1}
    assert one.first == {
        Loss("no-caption", ""): LossLocation("0.tar", "b", 2),
        Loss("no-image", ""): LossLocation("2.tar", "f", 0),
    }
    assert sorted(one.shapes[Loss("no-caption", "")].values()) == [1, 1, 2]
    assert (one.crash, one.crash_location) == (
        Fate("crash", "group", "why"),
        LossLocation("1.tar", None, 7),
    )


def test_what_comes_after_a_crash_inside_a_shard_is_not_counted() -> None:
    shapes = [
        "jpg txt",
        "jpg txt",
        "txt jpg",
        "jpg txt __bad__",
        "jpg txt",
        "jpg",
        "jpg txt",
        "txt jpg",
        "jpg json",
    ]
    members = [
        each
        for key, members in zip("abcdefghi", shapes, strict=True)
        for each in sample(key, members)
    ]
    result = run_pass(
        READERS["webdataset-1"](), [shard(0, members), shard(1, sample("j", "jpg txt"))]
    )

    assert (result.formed, result.usable) == (5, 4)
    assert result.crash == Fate("crash", "filter", "no-caption")
    assert result.crash_location == LossLocation(
        "0.tar", "f", members.index(("f", Part("jpg", OK)))
    )


def test_a_sample_that_goes_over_a_border_is_found_where_it_began() -> None:
    first, second = shard(0, sample("a", "jpg")), shard(1, sample("a", "json") + sample("b", "txt"))
    result = run_pass(READERS["open-clip-3.3"](), [first, second, shard(2, sample("c", "json"))])

    assert result.first == {
        Loss("no-caption", ""): LossLocation("0.tar", "a", 0),
        Loss("no-image", ""): LossLocation("1.tar", "b", 1),
        Loss("no-image-or-caption", ""): LossLocation("2.tar", "c", 0),
    }
    assert (result.formed, result.usable) == (3, 0)


def test_a_fact_about_a_whole_shard_ends_the_pass_before_it() -> None:
    again = shard(1, sample("b", "jpg txt"))
    again.tallies["key.again"] = Tally(1, "b", 0)
    result = run_pass(
        READERS["ray-data"](), [shard(0, sample("a", "jpg txt")), again, shard(2, [])]
    )

    assert result.usable == 1
    assert result.crash == Fate("crash", "group", "key-again", "b")
    assert result.crash_location == LossLocation("1.tar", None, None)


def test_a_shard_that_a_reader_cannot_unpack_holds_nothing_for_it() -> None:
    packed = replace(shard(0, sample("a", "jpg txt") + sample("b", "jpg txt")), compression="zst")

    raising = run_pass(READERS["webdataset-1"](), [packed])
    assert (raising.formed, raising.crash) == (
        0,
        Fate("crash", "group", "unreadable-shard", "stored as zst"),
    )
    assert raising.crash_location == LossLocation("0.tar", None, 0)
    logging = run_pass(READERS["open-clip-3.3"](), [packed, shard(1, sample("c", "jpg txt"))])
    assert (logging.formed, logging.usable, logging.crash) == (1, 1, None)


def test_the_caption_of_the_next_shard_is_paired_with_the_image_of_a_cut_one() -> None:
    cut = shard(0, [("a", Part("jpg", OK))], Stop("silent", 7))
    following = shard(1, [("a", Part("txt", OK)), ("a", Part("jpg", OK)), ("b", Part("jpg", OK))])
    result = run_pass(READERS["open-clip-3.3"](), [cut, following])

    assert result.usable == 1
    assert result.formed == 3


@pytest.mark.parametrize(
    ("name", "exact"), [("open-clip-3.3", False), ("webdataset-1", False), ("open-clip-4", True)]
)
def test_a_verdict_that_rests_on_an_unopened_pickle_is_not_exact(name: str, exact: bool) -> None:
    fields = [Part("jpg", OK), Part("txt", OK), Part("pyd", UNSAFE)]
    verdict = judge(
        Evidence("full", [shard(0, [(key, part) for key in "ab" for part in fields])]),
        READERS[name](),
    )

    assert verdict.exact is exact
    assert ("pickled" in verdict.note) is not exact


def test_neighbours_of_one_key_that_a_reader_cuts_into_several_samples_are_counted_as_these() -> (
    None
):
    members = [
        ("a", Part("jpg", OK)),
        ("a", Part("txt", OK)),
        ("a", Part("jpg", BAD)),
        ("a", Part("txt", OK)),
    ]
    evidence = Evidence("full", [shard(0, members)])
    evidence.shards[0].samples = 1

    verdict = judge(evidence, READERS["open-clip-3.3"]())

    assert (verdict.samples, verdict.usable, verdict.outcome) == (2, 1, "loses")
