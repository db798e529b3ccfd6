"""The parts of the feed, each by itself, on exact small cases."""

import gc
import random
import weakref
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.golden_file import check_text
from tests.shards.archives import JPEG, tar_bytes, write_tar
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.shards.source.base import single_shard
from wdsflow.stages import Dropped, StageError
from wdsflow.stages.caption_sources import LARGEST, captions_for, parse_captions
from wdsflow.training.feed import memory_shares
from wdsflow.training.feed.catalog import listing_cache, sample_catalog
from wdsflow.training.feed.catalog.listing import list_samples
from wdsflow.training.feed.catalog.sample_catalog import Catalog
from wdsflow.training.feed.epoch.losses import StarvedError
from wdsflow.training.feed.epoch.planner import Planner
from wdsflow.training.feed.epoch.stream import Stream, shuffle_references
from wdsflow.training.feed.memory_shares import TooLittleFeedMemory, divide_memory
from wdsflow.training.feed.resume import epoch_counter
from wdsflow.training.feed.resume.epoch_counter import EpochCounter
from wdsflow.training.orders.balanced import BalancedOrder
from wdsflow.training.orders.merged import shares_of
from wdsflow.training.orders.mixed_streams import MixedSource
from wdsflow.training.orders.openclip import (
    EvaluationOrder,
    OpenClipOrder,
    ResampledOrder,
    Workload,
)
from wdsflow.training.orders.order import EpochPosition, StreamPosition
from wdsflow.training.ranks import JobRank
from wdsflow.training.sample_tasks import Blob, MadeSample, SampleRef
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally

GOLDEN = Path(__file__).parent / "golden" / "feed_parts.txt"
MIB = 1 << 20


@given(st.lists(st.integers(1, 60), min_size=1, max_size=9), st.data())
def test_streams_are_merged_in_proportion_to_their_rates(rates, data):
    streams, total = np.array(rates, np.int64), sum(rates)
    before = np.zeros_like(streams)
    for first in sorted(data.draw(st.sets(st.integers(0, total), max_size=12)) | {total}):
        found = shares_of(streams, first)
        assert found.sum() == first
        assert (before <= found).all()
        shares = streams / total
        assert (abs(found - first * shares) <= 0.5 + shares * (len(rates) - 2) / 2 + 1e-9).all()
        before = found
    assert before.tolist() == rates
    assert shares_of(np.array([7, 3]), 4).tolist() == [3, 1]  # at 1/14, 1/6, 3/14, 5/14


SOURCES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
        st.integers(1, 9),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(SOURCES, st.data(), st.sampled_from(["exact", "even", "drop"]), st.booleans())
def test_any_ranks_continue_an_epoch_from_any_position(sources, data, last, together):
    mixed = [
        MixedSource(
            tuple((single_shard(f"{number} {shard}"), count) for shard, count in enumerate(counts)),
            weight,
            ends,
        )
        for number, (counts, weight, ends) in enumerate(sources)
    ]

    def rank(number, world, batch_size):
        common = {
            "batch_size": batch_size,
            "seed": 3,
            "last": last,
            "together": together,
            "most_streams": 4,
        }
        return BalancedOrder(mixed, job_rank=JobRank(number, world), **common)

    length = rank(0, 1, 1).length
    given, start, skipped = [], 0, 0
    while start < length:
        world, batch_size = data.draw(st.integers(1, min(4, length))), data.draw(st.integers(1, 5))
        every = [rank(number, world, batch_size) for number in range(world)]
        lists = [list(each.steps(2, EpochPosition(samples=start))) for each in every]
        assert [len(steps) for steps in lists] == [each.steps_left(start) for each in every]
        alone = len(lists[0]) - len(lists[-1])  # of the first ranks, at the end of the epoch
        assert alone in ({0} if together or last != "exact" else {0, 1})
        assert sorted(map(len, lists), reverse=True) == [len(steps) for steps in lists]
        if not lists[0]:
            skipped = length - start
            assert skipped < {"exact": 0, "even": world, "drop": world * batch_size}[last]
            break
        until = data.draw(st.integers(1, len(lists[0])))
        for at, step in enumerate(lists[0][:until]):
            sizes = [steps[at].size for steps in lists if at < len(steps)]
            assert max(sizes) - min(sizes) <= (last == "exact")
            assert 0 < min(sizes) <= max(sizes) <= batch_size
            for other in (steps[at] for steps in lists if at < len(steps)):
                assert other.stop == step.stop
                given += (
                    [] if other.repeated else [place for run in other.runs for place in places(run)]
                )
            start = step.stop
    assert len(given) == len(set(given)) == length - skipped
    for number, source in enumerate(mixed):
        own = Counter(each[1:] for each in given if each[0] == number)
        assert set(own.values()) <= {1}
        if last == "exact" and length < 2000:
            steps = rank(0, 1, 64).steps(2, EpochPosition())
            whole = [place for step in steps for run in step.runs for place in places(run)]
            assert sorted(given) == sorted(whole)
        assert len(own) <= source.samples * (1 + length // source.samples)


def places(run):
    return [(*run.stream, run.first + number) for number in range(run.samples)]


@pytest.mark.deep
@given(SOURCES, st.integers(1, 4), st.integers(1, 5))
def test_the_last_run_of_each_stream_is_marked(sources, world, batch_size):
    mixed = [
        MixedSource(
            tuple((single_shard(f"{number} {shard}"), count) for shard, count in enumerate(counts)),
            weight,
        )
        for number, (counts, weight, _) in enumerate(sources)
    ]
    assume(sum(source.samples for source in mixed) >= world)
    ends = Counter()
    last = {}
    for rank in range(world):
        order = BalancedOrder(
            mixed, job_rank=JobRank(rank, world), batch_size=batch_size, seed=3, most_streams=4
        )
        for step in order.steps(2, EpochPosition()):
            for run in step.runs:
                ends[run.stream] += run.ends
                last[run.stream] = max(
                    last.get(run.stream, (0, False)), (run.first + run.samples, run.ends)
                )
    counts = dict(enumerate(source.samples for source in mixed))
    given = Counter()
    for stream, (length, _) in last.items():
        given[stream.source, stream.round] += length
    for stream, (_, ended) in last.items():
        whole_round = given[stream.source, stream.round] == counts[stream.source]
        assert ended >= whole_round
        assert ends[stream] == ended


def test_sources_end_an_epoch_or_repeat_their_samples():
    def length(*sources):
        mixed = [
            MixedSource(((single_shard(name), count),), weight, ends)
            for name, count, weight, ends in sources
        ]
        return BalancedOrder(mixed, job_rank=JobRank(0, 1), batch_size=4, seed=0).length

    assert length(("a", 30, 1, False)) == 30
    # Until b has been given.
    assert length(("a", 30, 3, False), ("b", 1000, 1, False)) == pytest.approx(4000, abs=2)
    assert length(("a", 30, 3, True), ("b", 1000, 1, False)) == pytest.approx(40, abs=2)
    assert length(("a", 30, 3, True), ("b", 5, 1, True)) == pytest.approx(20, abs=3)


SHARES = {"batch": 100, "sample": 6000, "made": 1500, "decoders": 4, "chunk": 2, "streams": 2}


@pytest.mark.parametrize(
    ("memory", "changed", "found"),
    [
        (64 * MIB + 1_962_000, {}, (64 * MIB, MIB, MIB, 8)),
        (100 * MIB, {}, (84_858_232, 4_474_842, 8_949_684, 100)),
        (200 * MIB, {"streams": 1}, (137_287_032, 35_164_084, 35_164_084, 100)),
        (100 * MIB, {"decoders": 40, "batch": 10}, (85_645_732, 4_694_217, 9_388_434, 160)),
        (70 * MIB, {"made": 150_000}, None),
        (None, {}, (1_106_171_256, 259_803_098, 519_606_196, 100)),
    ],
)
def test_memory_is_divided_among_what_is_in_flight(memory, changed, found, monkeypatch):
    monkeypatch.setattr(
        "wdsflow.memory.bounds.host_memory", lambda: SimpleNamespace(total=16 << 30)
    )
    monkeypatch.setattr(memory_shares, "local_ranks", lambda: 4)
    if found is None:
        with pytest.raises(
            TooLittleFeedMemory,
            match=r"^memory of 73,400,320 bytes is too little: 3 batches of 100 samples",
        ):
            divide_memory(memory, **{**SHARES, **changed})
        return
    assert tuple(divide_memory(memory, **{**SHARES, **changed})) == found


def test_memory_one_byte_short_is_refused_with_what_is_needed():
    least = 64 * MIB + 3 * 100 * 6000 + 100 * 1500 + 8 * 1500
    assert divide_memory(least, **SHARES).ahead == 8
    with pytest.raises(
        TooLittleFeedMemory, match=f"and all in all {least:,} are needed$"
    ) as caught:
        divide_memory(least - 1, **SHARES)
    assert caught.value.least == least


@pytest.mark.parametrize("name", ["trains", "evaluates"])
def test_epochs_are_counted(name, monkeypatch):
    lines = []
    monkeypatch.setattr(
        epoch_counter, "log_or_print", lambda level, text: lines.append(f"  {text}")
    )
    counter = EpochCounter(5, advances=name == "trains")
    script = "b bg bg bg bgg bgL bL a4b a5bg bgg a5bgg gg r7b d7b bgL a8b bg bg bggg bg bL bgg"
    for word in script.split():
        result = []
        letters = iter(word)
        for letter in letters:
            if letter == "b":
                result.append(f"begins {counter.begin()}")
            elif letter in "gL":
                result.append(f"counts {counter.count_batch(last=letter == 'L')}")
            elif letter == "a":
                counter.request(int(next(letters)))
            else:
                counter.resume(int(next(letters)), done=letter == "d")
        lines.append(f"{word}: {', '.join(result)}; next {counter.next}, asked {counter.requested}")
    check_text(GOLDEN, f"epochs of one that {name}", "\n".join(lines))


def ref(key, *, held=0, shard="0.tar"):
    return SampleRef(
        single_shard(shard),
        key,
        Blob("jpg", held, -1, b"x" * held if held else None),
        (Blob("txt", 1, 0),),
    )


@pytest.mark.parametrize(
    ("size", "initial", "most_bytes", "held"),
    [
        (4, 2, 99, 0),
        (4, 9, 99, 0),
        (1, 1, 99, 0),
        (50, 10, 99, 0),
        (50, 10, 30, 10),
        (6, 3, 5, 10),
        (9, 1, 40, 10),
    ],
)
def test_a_shuffle_buffer_mixes_within_its_bounds(size, initial, most_bytes, held):
    arrived = []

    def arriving():
        for number in range(20):
            arrived.append(number)
            yield ref(f"{number}", held=held)

    lines = []
    for number, each in enumerate(
        shuffle_references(arriving(), size, initial, random.Random(1), most_bytes)
    ):
        lines.append(f"{each.key}, {len(arrived) - number} held")
    assert sorted(int(line.split(",")[0]) for line in lines) == list(range(20))
    check_text(
        GOLDEN, f"mixed by {size}, {initial}, {most_bytes} bytes, {held} each", "\n".join(lines)
    )


MEMBERS: list[dict[str, bytes | int]] = [
    {},
    {"txt": b"a cat"},
    {"txt": b" \n"},
    {"txt": b"\xff"},
    {"txt": b"x" * LARGEST},
    {"txt": b"x" * (LARGEST + 1)},
    {"txt": LARGEST + 5},
    {"json": b'{"alt": "a dog"}'},
    {"json": b'{"alt": 3}'},
    {"json": b"["},
    {"txt": b"", "json": b'{"alt": "a dog"}'},
    {"txt": b"a cat", "json": b'{"alt": "a dog"}'},
]


@pytest.mark.parametrize("location", ["txt", "txt|json:alt", "json:title;alt|txt", "TXT;caption"])
def test_captions_are_read_from_the_first_place_that_has_one(location):
    captions = parse_captions(location)
    lines = [f"{captions}: {', '.join(captions.members)}"]
    for members in MEMBERS:
        try:
            found = captions.read("k", members)[:40]
        except Dropped as drop:
            found = f"dropped: {drop.reason}"
        except StageError as error:
            found = f"{error.slug}: {error}"[:200]
        lines.append(
            f"{ {name: value if isinstance(value, int) else value[:20] for name, value in members.items()} }: {found}"
        )
    check_text(GOLDEN, f"captions in {location}", "\n".join(lines))


def test_captions_are_where_the_arguments_say():
    both = captions_for("json:alt|txt", SimpleNamespace(text_key="no"), keep_empty=True)
    assert (both.members, both.keep_empty) == (("json", "txt"), False)
    plain = captions_for(None, SimpleNamespace(), keep_empty=True)
    assert (plain.members, plain.read("k", {"txt": b""})) == (("txt",), "")
    assert captions_for(None, SimpleNamespace(text_key="TXT;cap"), keep_empty=False).members == (
        "txt",
        "cap",
    )
    keys = SimpleNamespace(
        json_text_key="alt;title", json_text_key_probs=[0.5, 0.5], seed=7, text_key="txt"
    )
    drawn = captions_for(None, keys, keep_empty=False)
    texts = [
        drawn.at_epoch(epoch, 0).read("k", {"json": b'{"alt": "a", "title": "t"}'})
        for epoch in range(12)
    ]
    assert set(texts) == {"a", "t"}
    assert [
        drawn.at_epoch(epoch, 0).read("k", {"json": b'{"alt": "a", "title": "t"}'})
        for epoch in range(12)
    ] == texts
    assert plain.at_epoch(3, 0) is plain


def hostile():
    entries = [
        ("a.jpg", JPEG), ("a.txt", b"1"), ("a.JPG", b"again"), ("b.txt", b"2"), ("c.jpg", b"3"), ("._c.txt", b"4"),
        ("d/e.x.jpg", b"5"), ("d/e.txt", b"6"), ("noname", b"7"), ("f.png", b"8"), ("f.jpg", b"9"), ("f.txt", b"10"),
        ("f.json", b"{}"), ("g.jpg", b"11"), ("g.txt", b"12"), ("g.__bad__", b"1"), ("h.jpg", b"13"), ("h.__bad__", b""),
        ("h.txt", b"14"), ("i.cls", b"1"),
    ]  # fmt: skip
    return tar_bytes(entries)


def listed(catalog, url):
    return [repr(each) for each in catalog.samples(single_shard(url))]


@pytest.mark.parametrize(
    "name", ["0.tar", "cut.tar", "unended.tar", "none.tar", "missing.tar", "piped"]
)
def test_the_samples_of_a_shard_are_listed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = hostile()
    Path("0.tar").write_bytes(data)
    Path("cut.tar").write_bytes(data[: 512 * 9])
    Path("unended.tar").write_bytes(data[: data.rindex(b"i.cls") + 1024])
    Path("none.tar").write_bytes(b"no tar at all")
    url = "pipe:cat 0.tar" if name == "piped" else name
    catalog = Catalog(("jpg", "png"), ("txt", "json"), allow_pipe=True)
    hurt = []
    catalog.on_damage = hurt.append
    first = listed(catalog, url)
    again = list(hurt)
    assert listed(catalog, url) == first
    assert hurt == again * 2
    assert catalog.count(single_shard(url)) == sum(line.startswith("SampleRef") for line in first)
    assert catalog.hanging_shards(0.0) == []
    check_text(GOLDEN, f"samples of {name}", "\n".join([*first, *map(repr, again), "end"]))


def test_lists_of_shards_are_forgotten_where_they_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(listing_cache, "_MOST", 20)
    urls = []
    for number, count in enumerate((4, 4, 21, 12)):
        members = [
            (f"{each:03d}.{field}", b"x") for each in range(count) for field in ("jpg", "txt")
        ]
        urls.append(str(write_tar(tmp_path / f"{number}.tar", members)))
    catalog = Catalog(("jpg",), ("txt",), allow_pipe=False)
    walks = []

    def noted(url, *rest, **named):
        walks.append(url)
        return list_samples(url, *rest, **named)

    monkeypatch.setattr(sample_catalog, "list_samples", noted)
    for number in (0, 0, 1, 1, 2, 2, 3, 3, 0):
        assert catalog.count(single_shard(urls[number])) == (4, 4, 21, 12)[number]
    assert [urls.index(url) for url in walks] == [0, 1, 2, 2, 3, 0]


def set_of(folder, counts):
    urls = []
    for shard, count in enumerate(counts):
        members = [
            (f"{shard}{number:02d}.{field}", b"x")
            for number in range(count)
            for field in ("jpg", "txt")
        ]
        members += [(f"{shard}99.jpg", b"x")]  # lacks its caption
        urls.append(single_shard(str(write_tar(folder / f"{shard}.tar", members))))
    return urls


def orders(urls, counts, workers):
    work = Workload(JobRank(0, 1), workers, 4, sum(counts), seed=1, buffers=Buffers())
    yield "openclip", OpenClipOrder(urls, work)
    yield "resampled", ResampledOrder(urls, None, work)
    yield "in order", EvaluationOrder(urls, workers=workers, batch_size=4, samples=sum(counts))
    shards = MixedSource(tuple(zip(urls, counts, strict=True)))
    yield (
        "balanced",
        BalancedOrder(
            [shards], job_rank=JobRank(0, 1), batch_size=4, seed=1, last="even", most_streams=3
        ),
    )


@pytest.mark.parametrize("bad", ["", "3", "0"], ids=["all", "some", "many"])
@pytest.mark.parametrize("begun", [0, 1])
def test_batches_are_planned(bad, begun, tmp_path):
    """``bad``: samples whose key ends so are lost."""
    counts = [7, 5, 6, 9]
    urls = set_of(tmp_path, counts)
    lines = []
    for name, order in orders(urls, counts, 2):
        tally = LossTally()
        lines.append(f"{name}: {order.num_batches} batches, {order.num_samples} samples")
        try:
            lines += plan(order, tally, bad, begun)
        except StarvedError as error:
            lines.append(starved(error))
        lines.append(
            f"  kept {tally.kept}, lost {tally.lost}, noted {dict(tally.noted)}, {dict(tally.fields)}"
        )
    check_text(GOLDEN, f"plan: lost {bad or 'none'}, begun {begun}", "\n".join(lines))


def plan(order, tally, bad, begun):
    """Yield the chunks and batches of an epoch; results come two chunks late."""
    catalog = Catalog(("jpg",), ("txt",), allow_pipe=False)
    buffers = Buffers(samples=3, samples_initial=2)

    def opened(key, first_round, lose):
        shards, draws = (
            partial(order.shards_of, begun, key),
            order.shards if order.endless else None,
        )
        return Stream(key, shards, catalog, epoch=begun, seed="7", shuffle=buffers if begun else None, most_bytes=MIB,
                      lose=lose, idle=lambda: None, first_round=first_round, draws=draws)  # fmt: skip

    begin = EpochPosition(begun, [StreamPosition(0, 3 * begun)] * order.streams, 4 * begun)
    common = {"ahead": 6, "most_bytes": MIB, "chunk": 3, "most_lost": 25, "idle": lambda: None}
    planner = Planner(order, begun, begin, opened, tally, **common)
    waiting = []
    lines = []
    try:
        while not planner.is_finished:
            tasks = planner.draw()
            if tasks:
                lines.append(f"  {' '.join(told(task) for task in tasks)} {tasks[0].seed % 1000}")
            waiting.append(tasks)
            if len(waiting) > 2 or not tasks:
                done = waiting.pop(0)
                planner.take_results(made(done, bad))
            while (batch := planner.next_batch()) is not None:
                keys = " ".join(task.ref.key for task in batch.samples)
                after = [tuple(each) for each in batch.after.streams] or batch.after.samples
                awaited = (
                    "several" if planner.awaited_stream is None else planner.awaited_stream.number
                )
                lines.append(f"  batch {batch.number}: {keys}; {after}, next {awaited}")
            if len(lines) > 60:
                break
    except StarvedError as error:
        lines.append(starved(error))
    finally:
        planner.close()
    return lines


class Sample:
    """What a weak reference can point to."""


def test_samples_are_let_go_of_when_their_batch_has_been_assembled(tmp_path):
    """They are freed without the garbage collector.

    Their images are in shared memory, which is scarce.
    """
    counts = [7, 5]
    for _, order in orders(set_of(tmp_path, counts), counts, 2):
        catalog = Catalog(("jpg",), ("txt",), allow_pipe=False)

        def opened(key, first_round, lose, order=order, catalog=catalog):
            return Stream(key, partial(order.shards_of, 0, key), catalog, epoch=0, seed="7", shuffle=None, most_bytes=MIB,
                          lose=lose, idle=lambda: None, first_round=first_round)  # fmt: skip

        limits = {"ahead": 6, "most_bytes": MIB, "chunk": 3, "most_lost": 25, "idle": lambda: None}
        planner = Planner(order, 0, EpochPosition(), opened, LossTally(), **limits)
        gc.disable()
        try:
            batch = None
            while batch is None:
                tasks = planner.draw()
                for task in tasks:
                    task.result = Sample()  # type: ignore[assignment]
                planner.take_results(tasks)
                batch = planner.next_batch()
            del tasks, task
            living = [weakref.ref(task.result) for task in batch.samples]
            batch.samples.clear()
            assert [reference() for reference in living] == [None] * 4
        finally:
            gc.enable()
            planner.close()


def told(task):
    return f"{task.stream.number}:{task.ref.key}.{task.round}.{task.number}"


def starved(error):
    stream = None if error.stream is None else error.stream.number
    return f"  StarvedError(stream={stream}, usable={error.usable}, in_a_row={error.in_a_row})"


def made(tasks, bad):
    for task in tasks:
        key, shard = task.ref.key, task.ref.shard
        lost = bad and key.endswith(bad)
        task.result = (
            FeedLoss("decode", "cut", key, single_shard(shard)) if lost else MadeSample(key, "")
        )
    return tasks
