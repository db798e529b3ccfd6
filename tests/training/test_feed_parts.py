"""The parts of the feed, each by itself, on exact small cases."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_file import check_text
from tests.shards.archives import JPEG, tar_bytes, write_tar
from wdsflow.readers.open_clip.versions import Buffers
from wdsflow.stages.base import Dropped, StageError
from wdsflow.training.caption_sources import LARGEST, captions_for, parse_captions
from wdsflow.training.feed import epoch_run, feed, sample_catalog
from wdsflow.training.feed.batch_planner import Planner, StarvedError
from wdsflow.training.feed.epoch_run import EpochCounter
from wdsflow.training.feed.feed import TooLittleMemory, shares
from wdsflow.training.feed.lanes import Lane, LanePosition, mixed
from wdsflow.training.feed.sample_catalog import Catalog
from wdsflow.training.feed.schedule import Balanced, InOrder, OpenClip, ResampledSchedule, Workload
from wdsflow.training.ranks import RankPlace
from wdsflow.training.sample_tasks import Blob, SampleRef
from wdsflow.training.stalls.loss_tally import FeedLoss, LossTally

GOLDEN = Path(__file__).parent / "golden" / "feed_parts.txt"
MIB = 1 << 20


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 3),
    st.booleans(),
)
def test_balanced_ranks_share_an_epoch_evenly(counts, world, batch_size, epoch, together):
    urls = [f"{number}.tar" for number in range(len(counts))]

    def rank(number):
        place = RankPlace(number, world)
        return Balanced(urls, counts, place=place, batch_size=batch_size, seed=3, together=together)

    total = sum(counts)
    if total < world:
        with pytest.raises(ValueError, match=f"^{total} samples with image and caption are too few for {world} ranks$"):
            rank(0)
        return
    ranks = [rank(number) for number in range(world)]
    taken, own = [], []
    for each in ranks:
        stretch = []
        for piece in each.pieces(epoch, 0):
            count = counts[urls.index(piece.url)]
            assert piece.stop is None or 0 <= piece.start < piece.stop < count
            stretch += [(piece.url, at) for at in range(piece.start, count if piece.stop is None else piece.stop)]
        taken += stretch
        own.append(len(stretch))
    rest = total % world if together else 0
    assert len(set(taken)) == len(taken) == total - rest
    assert own == [total // world + (0 if together else number < total % world) for number in range(world)]
    assert {each.num_samples for each in ranks} == {total - rest}
    assert {each.shards for each in ranks} == {sum(map(bool, counts))}
    (batches,) = {each.num_batches for each in ranks}
    for each, samples in zip(ranks, own, strict=True):
        sizes = [each.size(batch) for batch in range(batches)]
        assert sum(sizes) == samples
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) > 0
    assert batches == min(-(-max(own) // batch_size), *own)


SHARES = {"batch": 100, "sample": 6000, "made": 1500, "decoders": 4, "chunk": 2, "lanes": 2}


@pytest.mark.parametrize(
    ("memory", "changed", "found"),
    [
        (64 * MIB + 1_962_000, {}, (64 * MIB, MIB, MIB, 8)),
        (100 * MIB, {}, (84_858_232, 4_474_842, 8_949_684, 100)),
        (200 * MIB, {"lanes": 1}, (137_287_032, 35_164_084, 35_164_084, 100)),
        (100 * MIB, {"decoders": 40, "batch": 10}, (85_645_732, 4_694_217, 9_388_434, 160)),
        (70 * MIB, {"made": 150_000}, None),
        (None, {}, (1_106_171_256, 259_803_098, 519_606_196, 100)),
    ],
)
def test_memory_is_divided_among_what_is_in_flight(memory, changed, found, monkeypatch):
    monkeypatch.setattr("wdsflow.memory.usage.host_memory", lambda: SimpleNamespace(total=16 << 30))
    monkeypatch.setattr(feed, "ranks_here", lambda: 4)
    if found is None:
        with pytest.raises(
            TooLittleMemory, match=r"^memory of 73,400,320 bytes is too little: 3 batches of 100 samples"
        ):
            shares(memory, **{**SHARES, **changed})
        return
    assert tuple(shares(memory, **{**SHARES, **changed})) == found


def test_memory_one_byte_short_is_refused_with_what_is_needed():
    least = 64 * MIB + 3 * 100 * 6000 + 100 * 1500 + 8 * 1500
    assert shares(least, **SHARES).ahead == 8
    with pytest.raises(TooLittleMemory, match=f"and all in all {least:,} are needed$") as caught:
        shares(least - 1, **SHARES)
    assert caught.value.least == least


@pytest.mark.parametrize("name", ["trains", "evaluates"])
def test_epochs_are_counted(name, monkeypatch):
    lines = []
    monkeypatch.setattr(epoch_run, "say", lambda level, text: lines.append(f"  {text}"))
    counter = EpochCounter(5, advances=name == "trains")
    script = "b bg bg bg bgg bgL bL a4b a5bg bgg a5bgg gg r7b d7b bgL a8b bg bg bggg bg bL bgg"
    for word in script.split():
        result = []
        letters = iter(word)
        for letter in letters:
            if letter == "b":
                result.append(f"begins {counter.begin()}")
            elif letter in "gL":
                result.append(f"counts {counter.give(last=letter == 'L')}")
            elif letter == "a":
                counter.ask(int(next(letters)))
            else:
                counter.resume(int(next(letters)), done=letter == "d")
        lines.append(f"{word}: {', '.join(result)}; next {counter.next}, asked {counter.asked}")
    check_text(GOLDEN, f"epochs of one that {name}", "\n".join(lines))


def ref(key, *, held=0, shard="0.tar"):
    return SampleRef(shard, key, Blob("jpg", held, -1, b"x" * held if held else None), (Blob("txt", 1, 0),))


@pytest.mark.parametrize(
    ("size", "initial", "most_bytes", "held"),
    [(4, 2, 99, 0), (4, 9, 99, 0), (1, 1, 99, 0), (50, 10, 99, 0), (50, 10, 30, 10), (6, 3, 5, 10), (9, 1, 40, 10)],
)
def test_a_shuffle_buffer_mixes_within_its_bounds(size, initial, most_bytes, held):
    arrived = []

    def arriving():
        for number in range(20):
            arrived.append(number)
            yield ref(f"{number}", held=held)

    lines = []
    for number, each in enumerate(mixed(arriving(), size, initial, random.Random(1), most_bytes)):
        lines.append(f"{each.key}, {len(arrived) - number} held")
    assert sorted(int(line.split(",")[0]) for line in lines) == list(range(20))
    check_text(GOLDEN, f"mixed by {size}, {initial}, {most_bytes} bytes, {held} each", "\n".join(lines))


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


@pytest.mark.parametrize("place", ["txt", "txt|json:alt", "json:title;alt|txt", "TXT;caption"])
def test_captions_are_read_from_the_first_place_that_has_one(place):
    captions = parse_captions(place)
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
    check_text(GOLDEN, f"captions in {place}", "\n".join(lines))


def test_captions_are_where_the_arguments_say():
    both = captions_for("json:alt|txt", SimpleNamespace(text_key="no"), keep_empty=True)
    assert (both.members, both.keep_empty) == (("json", "txt"), False)
    plain = captions_for(None, SimpleNamespace(), keep_empty=True)
    assert (plain.members, plain.read("k", {"txt": b""})) == (("txt",), "")
    assert captions_for(None, SimpleNamespace(text_key="TXT;cap"), keep_empty=False).members == ("txt", "cap")
    keys = SimpleNamespace(json_text_key="alt;title", json_text_key_probs=[0.5, 0.5], seed=7, text_key="txt")
    drawn = captions_for(None, keys, keep_empty=False)
    texts = [drawn.at_epoch(epoch).read("k", {"json": b'{"alt": "a", "title": "t"}'}) for epoch in range(12)]
    assert set(texts) == {"a", "t"}
    assert [drawn.at_epoch(epoch).read("k", {"json": b'{"alt": "a", "title": "t"}'}) for epoch in range(12)] == texts
    assert plain.at_epoch(3) is plain


def hostile():
    entries = [
        ("a.jpg", JPEG), ("a.txt", b"1"), ("a.JPG", b"again"), ("b.txt", b"2"), ("c.jpg", b"3"), ("._c.txt", b"4"),
        ("d/e.x.jpg", b"5"), ("d/e.txt", b"6"), ("noname", b"7"), ("f.png", b"8"), ("f.jpg", b"9"), ("f.txt", b"10"),
        ("f.json", b"{}"), ("g.jpg", b"11"), ("g.txt", b"12"), ("g.__bad__", b"1"), ("h.jpg", b"13"), ("h.__bad__", b""),
        ("h.txt", b"14"), ("i.cls", b"1"),
    ]  # fmt: skip
    return tar_bytes(entries)


def listed(catalog, url):
    return [repr(each) for each in catalog.samples(url)]


@pytest.mark.parametrize("name", ["0.tar", "cut.tar", "unended.tar", "none.tar", "missing.tar", "piped"])
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
    catalog.hurt = hurt.append
    first = listed(catalog, url)
    again = list(hurt)
    assert listed(catalog, url) == first
    assert hurt == again * 2
    assert catalog.count(url) == sum(line.startswith("SampleRef") for line in first)
    assert catalog.reading(0.0) == []
    check_text(GOLDEN, f"samples of {name}", "\n".join([*first, *map(repr, again), "end"]))


def test_lists_of_shards_are_forgotten_where_they_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_catalog, "_KEPT", 20)
    urls = []
    for number, count in enumerate((4, 4, 21, 12)):
        members = [(f"{each:03d}.{field}", b"x") for each in range(count) for field in ("jpg", "txt")]
        urls.append(str(write_tar(tmp_path / f"{number}.tar", members)))
    catalog = Catalog(("jpg",), ("txt",), allow_pipe=False)
    walks = []
    walk = catalog._walk

    def noted(url, *rest, **named):
        walks.append(url)
        return walk(url, *rest, **named)

    monkeypatch.setattr(catalog, "_walk", noted)
    for number in (0, 0, 1, 1, 2, 2, 3, 3, 0):
        assert catalog.count(urls[number]) == (4, 4, 21, 12)[number]
    assert [urls.index(url) for url in walks] == [0, 1, 2, 2, 3, 0]


def set_of(folder, counts):
    urls = []
    for shard, count in enumerate(counts):
        members = [(f"{shard}{number:02d}.{field}", b"x") for number in range(count) for field in ("jpg", "txt")]
        members += [(f"{shard}99.jpg", b"x")]  # lacks its caption
        urls.append(str(write_tar(folder / f"{shard}.tar", members)))
    return urls


def schedules(urls, counts, workers):
    work = Workload(RankPlace(0, 1), workers, 4, sum(counts), seed=1, buffers=Buffers())
    yield "openclip", OpenClip(urls, work)
    yield "resampled", ResampledSchedule(urls, None, work)
    yield "in order", InOrder(urls, lanes=workers, batch_size=4, samples=sum(counts))
    yield "balanced", Balanced(urls, counts, place=RankPlace(0, 1), batch_size=4, seed=1, together=True)


@pytest.mark.parametrize("bad", ["", "3", "0"], ids=["all", "some", "many"])
@pytest.mark.parametrize("begun", [0, 1])
def test_batches_are_planned(bad, begun, tmp_path):
    """``bad``: samples whose key ends so are lost."""
    counts = [7, 5, 6, 9]
    urls = set_of(tmp_path, counts)
    lines = []
    for name, schedule in schedules(urls, counts, 2):
        tally = LossTally()
        lines.append(f"{name}: {schedule.num_batches} batches, {schedule.num_samples} samples")
        try:
            lines += plan(schedule, tally, bad, begun)
        except StarvedError as error:
            lines.append(f"  StarvedFeed(lane={error.lane}, usable={error.usable}, in_a_row={error.in_a_row})")
        lines.append(f"  kept {tally.kept}, lost {tally.lost}, noted {dict(tally.noted)}, {dict(tally.fields)}")
    check_text(GOLDEN, f"plan: lost {bad or 'none'}, begun {begun}", "\n".join(lines))


def plan(schedule, tally, bad, begun):
    """Yield the chunks and batches of an epoch; results come two chunks late."""
    catalog = Catalog(("jpg",), ("txt",), allow_pipe=False)
    buffers = Buffers(samples=3, samples_initial=2)

    def lanes(lose):
        position = LanePosition(0, 3 * begun)
        return [
            Lane(number, schedule, catalog, epoch=begun, seed="7", shuffle=buffers if begun else None, most_bytes=MIB,
                 lose=lose, idle=lambda: None, position=position)
            for number in range(schedule.lanes)
        ]  # fmt: skip

    planner = Planner(
        schedule, lanes, tally, ahead=6, most_bytes=MIB, chunk=3, first=begun, last=schedule.num_batches, most_lost=25,
        idle=lambda: None,
    )  # fmt: skip
    waiting = []
    lines = []
    try:
        for chunk in planner.chunks():
            if chunk.tasks:
                lines.append(
                    f"  {chunk.lane} {' '.join(f'{task.ref.key}.{task.turn}.{task.number}' for task in chunk.tasks)}"
                )
                lines[-1] += f" {chunk.tasks[0].seed % 1000}"
            waiting.append(chunk)
            if len(waiting) > 2 or not chunk.tasks:
                done = waiting.pop(0)
                planner.take(done, [made(task, bad) for task in done.tasks])
            while (cut := planner.cut()) is not None:
                keys = " ".join(task.ref.key for task in cut.tasks)
                lines.append(
                    f"  batch {cut.number}: {keys}; {[tuple(each) for each in cut.positions]}, next {planner.lane_in_turn}"
                )
            if len(lines) > 60:
                break
    except StarvedError as error:
        lines.append(f"  StarvedFeed(lane={error.lane}, usable={error.usable}, in_a_row={error.in_a_row})")
    finally:
        planner.close()
    return lines


def made(task, bad):
    key, shard = task.ref.key, task.ref.shard
    return FeedLoss("decode", "cut", key, shard) if bad and key.endswith(bad) else key


@pytest.mark.parametrize(("start", "stop"), [(0, None), (0, 2), (2, None), (1, 3), (2, 2), (5, 9)])
def test_a_stretch_of_a_shard_takes_the_losses_before_its_samples(start, stop):
    loss = FeedLoss("select", "no-caption", "l", "0.tar")
    items = [loss, ref("a"), loss, loss, ref("b"), ref("c"), loss, ref("d"), loss]
    number, expected = 0, []
    for item in items:
        if number >= start and (stop is None or number < stop):
            expected.append(item)
        number += isinstance(item, SampleRef)
    assert list(Lane._cut(iter(items), start, stop)) == expected
