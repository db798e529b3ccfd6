"""What a request for a part of a file gets, and the bytes of views, compared with plain slices."""

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.pieces.pieces import length
from wdsflow.pieces.tar_view import TarView
from wdsflow.serving.shard_server import HttpAnswer, answer_to
from wdsflow.shards.source.base import Source, SourceChangedError

ALL = HttpAnswer(200, 0, 100)


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ({}, ALL),
        ({"Range": "bytes=0-0"}, HttpAnswer(206, 0, 1)),
        ({"Range": "bytes=10-19"}, HttpAnswer(206, 10, 20)),
        ({"Range": "bytes=10-"}, HttpAnswer(206, 10, 100)),
        ({"Range": "bytes=99-99"}, HttpAnswer(206, 99, 100)),
        ({"Range": "bytes=99-500"}, HttpAnswer(206, 99, 100)),
        ({"Range": "bytes=100-"}, HttpAnswer(416)),
        ({"Range": "bytes=100-101"}, HttpAnswer(416)),
        ({"Range": "bytes=-1"}, HttpAnswer(206, 99, 100)),
        ({"Range": "bytes=-100"}, HttpAnswer(206, 0, 100)),
        ({"Range": "bytes=-500"}, HttpAnswer(206, 0, 100)),
        ({"Range": "bytes=-0"}, HttpAnswer(416)),
        ({"Range": "bytes=20-10"}, ALL),
        ({"Range": "bytes=1-2,4-5"}, ALL),
        ({"Range": "lines=1-2"}, ALL),
        ({"Range": "bytes=1-2", "If-Range": '"e"'}, HttpAnswer(206, 1, 3)),
        ({"Range": "bytes=1-2", "If-Range": '"other"'}, ALL),
        ({"Range": "bytes=1-2", "If-Range": "Wed, 21 Oct 2015 07:28:00 GMT"}, ALL),
        ({"If-Match": '"e"'}, ALL),
        ({"If-Match": "*"}, ALL),
        ({"If-Match": '"x", "e"'}, ALL),
        ({"If-Match": 'W/"e"'}, HttpAnswer(412)),
        ({"If-Match": '"x"'}, HttpAnswer(412)),
        ({"If-None-Match": '"e"'}, HttpAnswer(304)),
        ({"If-None-Match": 'W/"e"'}, HttpAnswer(304)),
        ({"If-None-Match": "*"}, HttpAnswer(304)),
        ({"If-None-Match": '"x"'}, ALL),
        ({"If-Match": '"x"', "If-None-Match": '"e"'}, HttpAnswer(412)),
    ],
)
def test_a_get_is_answered(headers, answer):
    assert answer_to(make_mocked_request("GET", "/0.tar", headers), 100, "e") == answer
    status = answer.status
    asked_for_all = {name: value for name, value in headers.items() if name not in ("Range", "If-Range")}
    assert answer_to(make_mocked_request("HEAD", "/0.tar", headers), 100, "e") == (
        answer if status in (304, 412) else ALL
    )
    assert answer_to(make_mocked_request("GET", "/0.tar", asked_for_all), 100, "e").status in (200, 304, 412)


@pytest.mark.parametrize(
    ("answer", "part"),
    [(ALL, None), (HttpAnswer(206, 1, 3), "bytes 1-2/100"), (HttpAnswer(416), "bytes */100"), (HttpAnswer(304), None)],
)
def test_the_headers_name_the_part(answer, part):
    found = answer.headers(100, "e")
    assert found == {"ETag": '"e"', "Accept-Ranges": "bytes"} | ({} if part is None else {"Content-Range": part})


SHARD = bytes(range(256)) * 8
pieces = st.lists(
    st.one_of(
        st.binary(max_size=6), st.tuples(st.integers(0, 2000), st.integers(1, 40)).map(lambda at: (at[0], sum(at)))
    ),
    max_size=8,
)


def joined(parts):
    return b"".join(part if isinstance(part, bytes) else SHARD[slice(*part)] for part in parts)


@given(pieces, st.integers(0, 400), st.integers(0, 400))
def test_a_view_has_the_bytes_of_its_pieces(given_pieces, first, second):
    view, data = TarView(given_pieces), joined(given_pieces)
    assert view.size == len(data)
    start, stop = sorted(min(at, len(data)) for at in (first, second))
    parts = list(view.parts(start, stop))
    assert joined(parts) == data[start:stop]
    assert all(part if isinstance(part, bytes) else part[0] < part[1] for part in parts)
    again = TarView(given_pieces)
    assert list(again.marks()) == list(view.marks())
    assert list(TarView([*given_pieces, b"x"]).marks()) != list(view.marks())


def test_a_view_tells_what_it_weighs():
    assert TarView([]).weight == 200
    assert TarView([(0, 5), b"new", b"er", (7, 9)]).weight == 200 + 3 * 16 + 5


class Short(Source):
    """A source of some length."""

    def __init__(self, there):
        self.length = there


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (1024, [(0, 1024)]),
        (1023, [(0, 1023), bytes(1)]),
        (513, [(0, 513), bytes(511)]),
        (512, None),
        (0, None),
    ],
)
def test_a_tar_that_lacks_its_last_padding_gets_it(there, expected):
    source = Short(there)
    if expected is None:
        with pytest.raises(SourceChangedError, match=rf"read: it ends at byte {there}, (1,024|512) too early$"):
            list(source.parts(0, 1024))
    else:
        assert list(source.parts(0, 1024)) == [(source, each) for each in expected]
        assert sum(length(part) for _, part in source.parts(1020, 1024)) == 4
