"""HTTP servers that answer with something other than the requested bytes.

That is a fault of the server, never a sample with other bytes.
"""

import gzip
from pathlib import Path
from random import Random

import pytest

from tests.servers import http_server
from tests.shards.archives import JPEG, read_tar, tar_bytes
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.shards.source import retries as faults
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk

pytest.importorskip("aiohttp")

MEMBERS = [
    (f"{n:04}.{kind}", data)
    for n in range(150)
    for kind, data in (("jpg", JPEG * 700), ("txt", b"%d" % n))
]
OLD = tar_bytes(MEMBERS)
_LENGTH = len(OLD)
NEW = OLD.replace(JPEG[-8:], b"no image")  # as long, with the members in the same places


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))


def whole(source):
    """Read a source from its start to its end, little by little."""
    at, data = 0, b""
    while piece := source.read_at(at, 100_000):
        at, data = at + len(piece), data + piece
    return data


def part(asked):
    """Return the range that was asked for, None for the first answers and for other requests."""
    if asked.method != "GET" or not asked.range:
        return None
    start, stop = map(int, asked.range.removeprefix("bytes=").split("-"))
    return (start, stop + 1) if start else None


def put(answer, start, data, total=_LENGTH):
    answer.body = data
    answer.headers |= {
        "Content-Range": f"bytes {start}-{start + len(data) - 1}/{total}",
        "Content-Length": f"{len(data)}",
    }


def shifted(answer, start, stop):
    put(answer, start - 512, OLD[start - 512 : stop - 512])


def longer(answer, start, stop):
    put(answer, start, OLD[start : stop + 512])


def of_another_length(answer, start, stop):
    put(answer, start, OLD[start:stop], len(OLD) + 512)


def of_another_file(answer, start, stop):
    put(answer, start, NEW[start:stop])
    answer.headers["ETag"] = '"another"'


def changed_without_a_tag(answer, start, stop):
    put(answer, start, NEW[start:stop])
    del answer.headers["ETag"]
    answer.headers["Last-Modified"] = "Sat, 02 Jan 2021 00:00:00 GMT"


def without_a_range(answer, start, stop):
    del answer.headers["Content-Range"]


def all_of_it(answer, start, stop):
    answer.status, answer.body = 200, OLD
    answer.headers["Content-Length"] = f"{len(OLD)}"


def less_than_announced(answer, start, stop):
    answer.body = answer.body[:-512]
    answer.headers["Content-Length"] = f"{len(answer.body)}"


FAULTS = {
    shifted: "answered with 'bytes",
    longer: "answered with 'bytes",
    of_another_length: f"it had {len(OLD):,} bytes, now {len(OLD) + 512:,}",
    of_another_file: 'now "another"',
    changed_without_a_tag: "now Sat, 02 Jan",
    without_a_range: "without a Content-Range",
    all_of_it: "sent the whole file instead of bytes",
    less_than_announced: "announced 'bytes",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_other_bytes_than_those_asked_for_are_an_error_of_the_server_and_no_sample(
    fault, tmp_path: Path
):
    with http_server({"a.tar": OLD}) as (base, log):
        log.twist = lambda asked, answer: fault(answer, *part(asked)) if part(asked) else None
        report = filter_shards(
            f"{base}/a.tar", tmp_path, Recipe(where="bytes > 0"), RunOptions(jobs=0)
        )
        tries = [asked for asked in log.asked if part(asked)]
    assert FAULTS[fault] in report.failures[0].reason
    assert len(tries) == 4
    assert not list(tmp_path.rglob("*.tar"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_server_that_answers_wrongly_once_is_asked_again(fault):
    twisted = []

    def once(asked, answer):
        if part(asked) and not twisted:
            twisted.append(asked)
            fault(answer, *part(asked))

    with http_server({"a.tar": OLD}) as (base, log):
        log.twist = once
        with open_source(single_shard(f"{base}/a.tar")) as source:
            assert whole(source) == OLD
    assert twisted


def weak_tags(asked, answer):
    if part(asked):  # as servers send that pack on the way
        answer.headers["ETag"] = "W/" + answer.headers["ETag"]


def no_tags(asked, answer):
    if part(asked):
        del answer.headers["ETag"], answer.headers["Last-Modified"]


def parts_of_100_kb_at_most(asked, answer):
    if asked.range:
        start = int(asked.range.removeprefix("bytes=").partition("-")[0])
        put(answer, start, answer.body[:100_000])


def no_length(asked, answer):
    if "Content-Range" in answer.headers:
        answer.headers["Content-Range"] = answer.headers["Content-Range"].replace(
            f"/{len(OLD)}", "/*"
        )


def moved(asked, answer):
    if asked.path == "/old/a.tar":
        answer.status, answer.body = 302, b""
        answer.headers = {"Location": "/a.tar"}


def packed_on_the_way_against_our_wish(asked, answer):
    if asked.range and answer.status == 206:
        answer.headers["Content-Encoding"] = (
            "gzip"  # a label only: many servers put it on files that are packed
        )


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "way",
    [
        weak_tags,
        no_tags,
        parts_of_100_kb_at_most,
        no_length,
        moved,
        packed_on_the_way_against_our_wish,
    ],
)
def test_what_servers_may_do_costs_nothing(way):
    with http_server({"a.tar": OLD, "old/a.tar": OLD}) as (base, log):
        log.twist = way
        with open_source(single_shard(f"{base}/old/a.tar")) as source:
            assert whole(source) == OLD


@pytest.mark.parametrize("ranges", [True, False])
def test_a_packed_file_is_read_as_it_is_stored_whatever_its_encoding_is_called(ranges):
    def label(asked, answer):
        answer.headers["Content-Encoding"] = "gzip"

    with http_server({"a.tar.gz": gzip.compress(OLD, 1)}, ranges=ranges) as (base, log):
        log.twist = label
        with open_source(single_shard(f"{base}/a.tar.gz")) as source:
            assert source.compression == "gz"
            assert whole(source) == OLD


def tagged(asked, answer):
    answer.body, answer.headers["ETag"] = NEW, '"another"'


def untagged(asked, answer):
    answer.body = NEW
    del answer.headers["ETag"], answer.headers["Last-Modified"]


@pytest.mark.parametrize("change", [None, tagged, untagged])
def test_a_stream_that_breaks_goes_on_only_in_the_same_file(change):
    def changes(asked, answer):
        if len(log.asked) > 1 and change:
            change(asked, answer)

    with http_server({"a.tar": OLD}, ranges=False) as (base, log):
        log.cut = lambda asked: 1_500_000 if len(log.asked) == 1 else None
        log.twist = changes
        with open_source(single_shard(f"{base}/a.tar")) as source:
            if change is None:
                assert whole(source) == OLD
            else:
                with pytest.raises(SourceError, match="it changed while it was read"):
                    whole(source)


def test_a_login_page_in_place_of_the_file_is_called_so():
    def login(asked, answer):
        answer.status, answer.body = 200, b"<html>please log in</html>" * 40
        answer.headers = {"Content-Type": "text/html"}

    with http_server({"a.tar": OLD}) as (base, log):
        log.twist = login
        with open_source(single_shard(f"{base}/a.tar")) as source:
            walk = Walk(source)
            assert not list(walk)
        assert walk.stop.detail == "not a tar: looks like HTML page"


@pytest.mark.parametrize("jumps", [False, True])
def test_a_file_that_is_replaced_between_two_parts_is_never_read_as_one(jumps):
    random = Random(1)
    files = {"a.tar": OLD}
    with http_server(files) as (base, _), open_source(single_shard(f"{base}/a.tar")) as source:
        assert source.read_at(0, 1000) == OLD[:1000]
        files["a.tar"] = NEW
        with pytest.raises(SourceError, match="it changed while it was read"):
            source.read_at(random.randrange(2_000_000, 3_000_000) if jumps else 512 << 10, 1000)


def test_what_was_filtered_from_a_server_with_faults_is_what_the_file_gives(tmp_path: Path):
    random, names = Random(7), list(FAULTS)

    def often(asked, answer):
        if part(asked) and random.random() < 0.3:
            random.choice(names)(answer, *part(asked))

    with http_server({"a.tar": OLD}) as (base, log):
        log.twist = often
        report = filter_shards(
            f"{base}/a.tar", tmp_path, Recipe(where="bytes > 0"), RunOptions(jobs=0)
        )
    assert (report.total("kept"), report.total("samples"), report.whole) == (150, 150, True)
    assert read_tar(tmp_path / "a.tar") == MEMBERS
