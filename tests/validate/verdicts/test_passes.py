"""A pass computed from counted shapes against one walked sample by sample."""

from collections import Counter
from itertools import chain, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.readers import READERS
from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import BAD, OK, UNSAFE, Evidence, Part, ShardEvidence, Stop
from wdsflow.scan.runs import RunCollector
from wdsflow.validate.verdicts.reader_pass import run_pass
from wdsflow.validate.verdicts.verdict import judge

Members = list[tuple[str, Part]]
PARTS = st.builds(Part, st.sampled_from(["jpg", "txt", "json"]), st.sampled_from([OK, OK, OK, BAD]))
SHARDS = st.lists(st.lists(st.tuples(st.sampled_from("abc"), PARTS), max_size=12), max_size=4)


def shard(number: int, members: Members, stop: Stop | None = None) -> ShardEvidence:
    collector = RunCollector()
    for offset, (key, part) in enumerate(members):
        collector.add(key, part, offset)
    return ShardEvidence(f"{number}.tar", members=len(members), stop=stop or Stop(), runs=collector.runs())


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
    assert Counter({loss.reason: count for loss, count in result.lost.items()}).total() == lost.total()
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
def test_an_error_in_the_archive_takes_the_open_sample_with_it_where_the_reader_raises(kind: str) -> None:
    members: Members = [("a", Part("jpg", OK)), ("a", Part("txt", OK)), ("b", Part("jpg", OK)), ("b", Part("txt", OK))]
    stop = Stop(kind, 99)  # type: ignore[arg-type]
    broken = shard(0, members, stop)

    raising = run_pass(READERS["webdataset-1"](), [broken])
    assert raising.usable == 1
    assert raising.crash is not None
    assert raising.crash_place is not None
    assert raising.crash_place.offset == 99
    assert run_pass(READERS["open-clip-3.3"](), [broken]).usable == 2


def test_the_caption_of_the_next_shard_is_paired_with_the_image_of_a_cut_one() -> None:
    cut = shard(0, [("a", Part("jpg", OK))], Stop("silent", 7))
    following = shard(1, [("a", Part("txt", OK)), ("a", Part("jpg", OK)), ("b", Part("jpg", OK))])
    result = run_pass(READERS["open-clip-3.3"](), [cut, following])

    assert result.usable == 1
    assert result.formed == 3


@pytest.mark.parametrize(("name", "exact"), [("open-clip-3.3", False), ("webdataset-1", False), ("open-clip-4", True)])
def test_a_verdict_that_rests_on_an_unopened_pickle_is_not_exact(name: str, exact: bool) -> None:
    fields = [Part("jpg", OK), Part("txt", OK), Part("pyd", UNSAFE)]
    verdict = judge(Evidence("full", [shard(0, [(key, part) for key in "ab" for part in fields])]), READERS[name]())

    assert verdict.exact is exact
    assert ("pickled" in verdict.note) is not exact


def test_neighbours_of_one_key_that_a_reader_cuts_into_several_samples_are_counted_as_these() -> None:
    members = [("a", Part("jpg", OK)), ("a", Part("txt", OK)), ("a", Part("jpg", BAD)), ("a", Part("txt", OK))]
    evidence = Evidence("full", [shard(0, members)])
    evidence.shards[0].samples = 1

    verdict = judge(evidence, READERS["open-clip-3.3"]())

    assert (verdict.samples, verdict.usable, verdict.outcome) == (2, 1, "loses")
