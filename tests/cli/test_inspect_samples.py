"""``wdsflow inspect --show`` and ``--sample``: single samples.

Pictures are shown on terminals that can show them.
"""

import base64
import fcntl
import gzip
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tarfile
import termios
import tty
from html.parser import HTMLParser

import pytest
from PIL import Image

from tests.filtering.commands import pasted, run
from tests.filtering.shards import picture, write_shards
from tests.shards.archives import write_tar

HOSTILE = '</dd><script>alert(1)</script>\x1b]0;owned\x07\x1b[31m\u202e" onload="x'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", shards=3, samples=20)
    members = [
        (".jpg", picture(500, 200)),
        (".txt", HOSTILE.encode()),
        (".json", json.dumps({"a": HOSTILE}).encode()),
    ]
    write_tar(
        tmp_path / "odd.tar",
        [(f"a<b>\x1b[31m{name}", data) for name, data in members] + [("c.png", b"no picture")],
    )
    return tmp_path


def test_a_sample_is_shown_by_its_key_with_its_scores(here):
    assert (
        run(
            "measure",
            "in",
            "-o",
            "scored",
            "--scores",
            "min_side,caption_words,format",
            "--jobs",
            0,
        ).status
        == 0
    )
    done = run("inspect", "in", "--show", "0010003", "--ledger", "scored")
    assert done.status == 0, done
    for line in (
        "0010003 in 00001.tar, first member at byte ",
        "txt word word word word",
        'json {"n": 3}',
        "min_side 300",
        'format "jpeg"',
    ):
        assert line in done.out
    assert "0010002" not in done.out
    assert "\x1b" not in done.out
    run("filter", "in", "-o", "kept", "--where", "min_side > 100", "--jobs", 0)
    assert "min_side 300" in run("inspect", "kept", "--show", "0010003", "--ledger", "scored").out
    assert "outcome" not in done.out
    assert "outcome kept" in run("inspect", "in", "--show", "0010003", "--ledger", "kept").out
    run("inspect", "in", "--show", "0010003", "--ledger", "kept", "--html", "sheet.html")
    data = Page((here / "sheet.html").read_text(encoding="utf-8")).data
    facts = [text for text in data if text.strip()]
    for name, value in (("outcome", "kept"), ("min_side", "300")):
        assert facts[facts.index(name) + 1] == value


def test_why_a_sample_was_dropped_is_shown(here):
    where = "min_side > 100 and caption_words > 100"
    run("filter", "in", "-o", "none", "--where", where, "--jobs", 0)
    shown = run("inspect", "in", "--show", "0010003", "--ledger", "none").out
    assert "outcome dropped: caption_words > 100 is false" in shown
    assert "caption_words 4" in shown


def test_chance_picks_the_same_samples_for_the_same_seed_wherever_the_shards_are(here):
    def picked(*words: object) -> list[str]:
        done = run("inspect", *words, "--json")
        assert done.status == 0, done
        return [each["key"] for each in json.loads(done.out)["samples"]]

    some = picked("in", "--sample", 7)
    assert some == picked("in", "--sample", 7) == sorted(set(some))
    assert len(some) == 7
    assert len({key[:3] for key in some}) > 1
    assert picked("in", "--sample", 7, "--seed", 1) != some
    assert set(some) < set(picked("in", "--sample", 9))
    (here / "in").rename(here / "other")
    assert picked("other", "--sample", 7) == some
    assert len(picked("other", "--sample", 100)) == 60


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[tuple[str, str]] = []
        self.data: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.values += attrs

    def handle_data(self, data):
        self.data.append(data)


def test_a_contact_sheet_is_one_page_in_which_captions_are_only_text(here):
    done = run("inspect", "odd.tar", "in", "--sample", 100, "--html", "sheet.html")
    assert (done.status, done.out) == (0, "62 samples in sheet.html\n")
    text = (here / "sheet.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("img") == 61
    assert page.tags.count("script") == 0
    assert not {name for name, _ in page.values if name.startswith("on")}
    assert (
        "content",
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    ) in page.values
    assert {value.partition(",")[0] for name, value in page.values if name == "src"} == {
        "data:image/jpeg;base64"
    }
    assert not re.search(r"https?://|[\x00-\x08\x0b-\x1f\x7f]|\u202e", text)
    assert any("<script>alert(1)</script>\\x1b]0;owned" in data for data in page.data)
    assert any("no picture: not-an-image" in data for data in page.data)
    first = next(value for name, value in page.values if name == "src")
    assert Image.open(io.BytesIO(base64.b64decode(first.partition(",")[2]))).size == (320, 128)


def test_a_contact_sheet_says_what_a_reader_makes_of_each_sample(here):
    words = ("inspect", "in", "--sample", 2, "--for", "open-clip", "--html", "sheet.html")
    assert run(*words).status == 0
    page = Page((here / "sheet.html").read_text(encoding="utf-8"))
    assert page.data.count("open-clip-3.3") == 2


def test_hostile_texts_are_escaped_on_the_terminal(here):
    done = run("inspect", "odd.tar", "--sample", 5)
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "\\x1b]0;owned" in done.out.replace("\n", "")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("words", "said", "command"),
    [
        (
            ("in", "--show", "nobody"),
            "no sample has the key 'nobody' in 3 shards",
            "wdsflow inspect in --keys 20",
        ),
        (("in", "--html", "x.html"), "for single samples", "wdsflow inspect in --sample 20"),
        (("in", "--show", "0010003", "--ledger", "in"), "in has no ledgers", None),
        (("in", "--sample", "3", "--html", "no/x.html"), "the folder no does not exist", None),
        (
            ("in", "--sample", "3", "--html", "in"),
            "in is a folder",
            "wdsflow inspect in --sample 3 --html in-2",
        ),
        (("hurt.tar", "--sample", "3"), "nothing could be read: hurt.tar: not a tar", None),
    ],
)
def test_what_cannot_be_shown_is_reported(here, words, said, command):
    (here / "hurt.tar").write_text("<html>404</html>")
    done = run("inspect", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    if command:
        assert done.commands == [command]
        assert pasted(command).status == 0


# Makes its terminal the one that controls it, as a shell does, and then becomes the command.
LEAD = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def in_terminal(answers: dict[bytes, bytes], **environment: str) -> bytes:
    """Return what a command writes to a terminal that answers some questions, and no others."""
    ours, theirs = pty.openpty()
    tty.setraw(ours)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [
        sys.executable,
        "-c",
        LEAD,
        sys.executable,
        "-m",
        "wdsflow",
        "inspect",
        "odd.tar",
        "--sample",
        "5",
    ]

    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env={**os.environ, "TERM": "xterm-256color", **environment})  # fmt: skip
    os.close(theirs)
    shown, answered = b"", 0
    while True:
        select.select([ours], [], [])
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        shown += data
        for question, answer in answers.items():
            if question in shown[answered:]:
                answered = len(shown)
                os.write(ours, answer)
    os.close(ours)
    assert child.wait() == 0, shown
    return shown


@pytest.mark.parametrize(
    ("answers", "sign"),
    [
        pytest.param({}, "▀".encode(), marks=pytest.mark.deep, id="silent"),
        pytest.param({b"\x1b[c": b"\x1b[?62;4c"}, b"\x1bP", id="sixel"),
        pytest.param(
            {b"\x1b[c": b"\x1b[?62c", b"\x1b_Gi=": b"\x1b_Gi=1;OK\x1b\\"},
            b"\x1b_G",
            marks=pytest.mark.deep,
            id="kitty",
        ),
    ],
)
@pytest.mark.usefixtures("new_interpreters")
def test_a_terminal_gets_pictures_as_it_can_show_them(here, answers, sign):
    """One that never answers does not hold the command up."""
    shown = in_terminal(answers)
    assert sign in shown.replace(b"\x1b_Gi=", b"", 1)
    assert b"owned\x07" not in shown


@pytest.mark.deep
def test_without_the_library_a_terminal_gets_texts_and_the_way_to_pictures(here):
    (here / "none" / "textual_image").mkdir(parents=True)
    (here / "none" / "textual_image" / "__init__.py").write_text("raise ImportError")
    shown = in_terminal({}, PYTHONPATH=str(here / "none")).decode()
    assert "to see pictures here: " in shown
    assert "[pictures]" in shown
    assert "no picture: not-an-image" in shown
    assert "\x1b[c" not in shown


def test_a_pipe_that_is_named_for_the_page_gets_it_and_stays_a_pipe(here):
    os.mkfifo(here / "pipe")
    pipe = os.open(here / "pipe", os.O_RDWR)
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        assert run("inspect", "in", "--sample", 1, "--html", "pipe").status == 0
        assert (here / "pipe").is_fifo()
        assert os.read(pipe, 100).startswith(b"<!doctype html>")
    finally:
        os.close(pipe)


FAULTS = {
    "whole": [("jpg", picture(40, 30)), ("txt", b"a dog")],
    "empty": [("jpg", picture(40, 30)), ("txt", b"")],
    "cut": [("jpg", picture(40, 30)[:-90]), ("txt", b"a dog")],
    "alone": [("txt", b"a dog")],
    "twice": [("jpg", picture(40, 30)), ("txt", b"a dog"), ("jpg", picture(40, 30))],
    # Its name needs an extended header.
    "k" * 120: [("jpg", picture(40, 30)), ("json", b"{")],
}
TAKES = "takes it"
LACKS_IMAGE = "no image field"
CUT = "the image cannot be decoded (jpg)"
TWICE = "a field name occurs twice in one sample (jpg)"
MADE_OF_IT = {
    "open-clip-3.3": [
        *(TAKES, TAKES, f"loses it: {CUT}", f"loses it: {LACKS_IMAGE}"),
        *(
            f"makes 2 samples of it: {TAKES}; loses it: no caption field",
            "loses it: no caption field",
        ),
    ],
    "open-clip-4": [
        *(TAKES, "loses it: the caption is empty (txt)", f"loses it: {CUT}"),
        *(
            f"loses it: {LACKS_IMAGE}",
            f"makes 2 samples of it: {TAKES}; loses it: no caption field",
        ),
        "loses it: no caption field",
    ],
    "webdataset-1": [
        *(TAKES, TAKES, f"raises an error: {CUT}", f"raises an error: {LACKS_IMAGE}"),
        f"raises an error: {TWICE}",
        "raises an error: a field other than image and caption cannot be decoded, which drops the whole sample (json)",
    ],
    # The first sample gives the columns.
    "datasets": [
        *(TAKES, TAKES, f"raises an error: {CUT}"),
        f"gives None for what it lacks: {LACKS_IMAGE}",
        f"raises an error: {TWICE}",
        "raises an error: a field other than image and caption cannot be decoded, which drops the whole sample (json)",
    ],
}


@pytest.mark.parametrize("packed", [False, True], ids=["tar", "tar.gz"])
def test_what_readers_make_of_a_sample_is_shown_next_to_it(packed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = [(f"{key}.{name}", data) for key, fields in FAULTS.items() for name, data in fields]
    path = write_tar(tmp_path / "0.tar", members, tarfile.PAX_FORMAT)
    if packed:
        path.with_suffix(".tar.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    words = [word for name in MADE_OF_IT for word in ("--for", name)]
    for number, key in enumerate(FAULTS):
        done = run("inspect", ".", "--show", key, *words, "--json")
        (sample,) = json.loads(done.out)["samples"]
        assert sample["readers"] == {name: texts[number] for name, texts in MADE_OF_IT.items()}

    shown = run("inspect", ".", "--show", "empty", "--for", "open-clip-4")
    assert "open-clip-4 loses it: the caption is empty (txt)" in shown.out
    refused = run("inspect", ".", "--show", "empty", "--for", "nobody")
    assert (refused.status, "unknown reader 'nobody'" in refused.err) == (2, True)
