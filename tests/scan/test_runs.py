"""Runs by shape against a plain reading of the same members."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from wdsflow.scan.runs import RunCollector
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import OK

MEMBERS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["jpg", "txt", "json"])), max_size=40
)


def collect(members: list[tuple[str, str]]) -> RunCollector:
    collector = RunCollector()
    for offset, (key, suffix) in enumerate(members):
        collector.add(key, Part(suffix, OK), offset)
    return collector


def plain(members: list[tuple[str, str]]) -> list[tuple[str, tuple[Part, ...]]]:
    groups = groupby(members, key=lambda member: member[0])
    return [(key, tuple(Part(suffix, OK) for _, suffix in group)) for key, group in groups]


@given(MEMBERS)
def test_runs_are_the_neighbours_that_share_a_key(members: list[tuple[str, str]]) -> None:
    runs = collect(members).runs()
    expected = plain(members)

    assert (runs.head is None) == (not expected)
    if runs.head is not None:
        assert (runs.head.key, runs.head.shape) == expected[0]
    assert (runs.tail is None) == (len(expected) < 2)
    if runs.tail is not None:
        assert (runs.tail.key, runs.tail.shape) == expected[-1]
    shapes = [shape for _, shape in expected[1:-1]]
    assert {item.shape: item.count for item in runs.inner} == {
        shape: shapes.count(shape) for shape in shapes
    }


@given(MEMBERS)
def test_what_came_before_a_shape_is_counted_exactly(members: list[tuple[str, str]]) -> None:
    runs = collect(members).runs()
    shapes = [shape for _, shape in plain(members)[1:-1]]

    assert {item.shape for item in runs.inner} == set(shapes)
    for item in runs.inner:
        earlier = shapes[: shapes.index(item.shape)]
        listed = [other.shape for other in runs.inner[: len(item.before)]]
        assert dict(zip(listed, item.before, strict=True)) == {
            shape: earlier.count(shape) for shape in listed
        }
        assert sum(item.before) == len(earlier)


@given(MEMBERS, MEMBERS)
def test_a_copy_goes_its_own_way(
    first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> None:
    original = collect(first)
    copy = original.copy()
    for offset, (key, suffix) in enumerate(second, len(first)):
        copy.add(key, Part(suffix, OK), offset)

    assert copy.runs() == collect(first + second).runs()
    assert original.runs() == collect(first).runs()


def test_a_run_without_end_is_cut_and_counted() -> None:
    collector = collect([("a", f"{number}.jpg") for number in range(5000)])
    runs = collector.runs()

    assert runs.head is not None
    assert len(runs.head.shape) == 1000
    assert collector.long_runs == 1
