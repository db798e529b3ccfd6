"""All that servers of odd sets print and answer, word by word and byte by byte."""

import http.client
import re
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.test_whole_output import write_odder_sets, write_sets
from tests.filtering.commands import run
from tests.golden_file import check_text
from tests.serving.served import Running, ask, serving

GOLDEN = Path(__file__).parent / "golden" / "whole_answers.txt"
SCENES = {
    "as they are": ("s/0.tar", "s/1.tar", "odd/twice.tar", "g/latin.tar"),
    "some that cannot be served": ("s/0.tar", "g/whole.tar.gz", "d/none.tar", "d/cut.tar", "d/empty.tar", "no/such.tar"),
    "filtered, grafted, of other sizes": (
        "s", "--ledger", "scored", "--where", "json_number('width') != 101", "--samples", "3",
        "--graft", "t/few.csv", "--on", "key", "--set", "cap=caption", "--drop-unmatched",
    ),
    "shuffled": ("s", "odd/twice.tar", "--samples", "4", "--shuffle", "3"),
}  # fmt: skip
REQUESTS: list[tuple[str, str, dict[str, str]]] = [
    ("GET", "/", {}),
    ("GET", "/sizes.json", {}),
    ("GET", "/__len__", {}),
    *[("GET", f"/{number:06d}.tar", {}) for number in range(6)],
    ("HEAD", "/000000.tar", {}),
    ("GET", "/000000.tar", {"Range": "bytes=500-1999"}),
    ("GET", "/000000.tar", {"Range": "bytes=-700"}),
    ("GET", "/000000.tar", {"Range": "bytes=9000-"}),
    ("GET", "/000000.tar", {"Range": "bytes=1048576-"}),
    ("GET", "/000000.tar", {"Range": "bytes=0-1,5-6"}),
    ("GET", "/000000.tar", {"If-None-Match": "ETAG"}),
    ("GET", "/000000.tar", {"If-None-Match": '"other"', "Range": "bytes=0-9"}),
    ("GET", "/000000.tar", {"If-Range": "ETAG", "Range": "bytes=0-9"}),
    ("GET", "/000000.tar", {"If-Range": '"other"', "Range": "bytes=0-9"}),
    ("HEAD", "/000000.tar", {"Range": "bytes=0-9"}),
    ("PUT", "/000000.tar", {}),
    ("GET", "/0.tar", {}),
    ("GET", "/000000.tar?x=1", {}),
    ("GET", "/000000.tar", {"Host": "example.org"}),
]  # fmt: skip
HEADERS = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "Allow", "Location")


def answered(server: Running, method: str, path: str, headers: dict[str, str], etag: str) -> tuple[str, str]:
    """Return a line about a request and its answer, and the answer's ETag."""
    connection = http.client.HTTPConnection(server.url.split("/")[2])
    try:
        given = {name: etag if value == "ETAG" else value for name, value in headers.items()}
        reply = ask(connection, path, method, **{name.replace("-", "_"): value for name, value in given.items()})
    finally:
        connection.close()
    told = [f"{name}: {reply.headers[name]}" for name in HEADERS if name in reply.headers]
    text = reply.body.decode("ascii", "replace").replace(server.url, "URL/")
    body = (
        repr(text)
        if (len(text) < 400 and text.isprintable()) or text.count("\n") == 1
        else sha256(reply.body).hexdigest()[:12]
    )
    line = f"{method} {path} {headers or ''}: {reply.status} {', '.join(told)} {len(reply.body)} bytes {body}"
    return line, reply.headers.get("ETag", "")


@pytest.mark.parametrize("name", SCENES)
def test_a_server_prints_and_answers_what_the_golden_file_has(name, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_sets(tmp_path)
    write_odder_sets(tmp_path)
    if "filtered" in name:
        assert (
            run("measure", "s", "-o", "scored", "--scores", "caption_words, json_number('width')", "--jobs", 0).status
            == 0
        )
    until = "cannot be served: see above" if "cannot" in name else "--train-num-samples"
    with serving(*SCENES[name], cwd=tmp_path, until=until) as server:
        lines, etag = [], ""
        for method, path, headers in REQUESTS:
            line, found = answered(server, method, path, headers, etag)
            etag = found if path == "/000000.tar" and found else etag
            lines.append(line)
        assert etag
    printed = "\n".join([*server.lines, server.errors])
    text = "\n".join([printed.replace(server.url, "URL/"), *lines]).replace(str(tmp_path), "/PLACE")
    check_text(GOLDEN, name, re.sub(r"127\.0\.0\.1:\d+", "HERE", text))
