"""Secrets in a URL are neither printed nor stored, by any command.

The data that is read is the same.
"""

import importlib.util
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import wdsflow
from tests.filtering.commands import run
from tests.servers import http_server
from tests.training.shards import samples, write_tar
from tests.training.trainings import write_model
from wdsflow.cli.shared.without_secrets import without_secrets
from wdsflow.text import secrets

# Processes that it starts import PyTorch.

SECRET = "s3cr3tw0rd"
# What comes before the host of a url, and after its path.
FORMS = [
    pytest.param(f"me:{SECRET}@|", id="password"),
    pytest.param(f"|?token={SECRET}", id="token", marks=pytest.mark.deep),
    pytest.param(f"|?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}", id="signature"),
]
COMMANDS = [
    ("validate", "URL"),
    ("validate", "URL", "--format", "json"),
    ("validate", "URL", "--format", "sarif"),
    ("validate", "URL", "--format", "github"),
    ("validate", "URL", "--format", "html", "--output", "report.html"),
    (
        "validate",
        "URL",
        "--",
        "--train-data",
        "URL",
        "--workers",
        "1",
        "--batch-size",
        "2",
        "--model",
        "RN50",
    ),
    ("inspect", "URL"),
    ("inspect", "URL", "--show", "0000000", "--json"),
    ("index", "URL", "--sizes", "-o", "index"),
    ("repair", "URL", "-o", "repaired"),
    ("measure", "URL", "-o", "scored", "--scores", "width,caption_words"),
    ("scores", "--ledger", "scored"),
    ("status", "scored"),
    ("merge", "scored"),
    ("report", "scored", "-o", "page.html"),
    ("filter", "URL", "-o", "kept", "--where", "width > 8", "--export", "kept.txt"),
    ("filter", "URL", "-o", "kept", "--where", "width > 8"),
    ("filter", "URL", "-o", "cut", "--ledger", "scored", "--where", "width > 8"),
    ("reshard", "URL", "-o", "new", "--samples", "2"),
    ("graft", "URL", "--from", "table.csv", "--on", "key", "--set", "txt=caption", "-o", "grafted"),
    ("graft", "URL", "--from", "TABLE", "--on", "key", "--set", "txt=caption", "-o", "joined"),
    ("pack", "TABLE", "-o", "packed"),
    ("validate", "PIPE"),
    ("measure", "PIPE", "--allow-pipe", "-o", "piped", "--scores", "width"),
    ("validate", "MISSING"),
    ("repair", "MISSING", "-o", "nothing"),
    (
        "train",
        "--dry-run",
        "--",
        "--train-data",
        "URL",
        "--workers",
        "1",
        "--batch-size",
        "2",
        "--model",
        "RN50",
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    write_tar(tmp_path / "0.tar", samples(0, 4))
    files = {"0.tar": (tmp_path / "0.tar").read_bytes(), "t.csv": b"caption,image\na,a.jpg\n"}
    with http_server(files) as (url, _):
        yield url.partition("://")[2].partition("/")[0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", FORMS)
def test_no_command_shows_or_stores_what_is_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, form: str
):
    user, _, query = form.partition("|")
    urls = {
        "URL": f"http://{user}{server}/0.tar{query}",
        "MISSING": f"http://{user}{server}/none.tar{query}",
        "TABLE": f"http://{user}{server}/t.csv{query}",
        "PIPE": f"pipe:cat {tmp_path}/0.tar # http://{user}{server}/0.tar{query}",
    }
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "table.csv").write_text("key,caption\n0000000,new\n")
    for words in COMMANDS:
        # Each command is a process of its own to its user: none knows what was secret in another.
        monkeypatch.setattr(secrets, "_known", set())
        done = run(*(urls.get(word, word) for word in words))
        assert done.status in (0, 1, 2), (words, done)
        assert "Traceback" not in done.err, (words, done.err)
        assert SECRET not in done.out + done.err, (words, done)
    written = [path for path in work.rglob("*") if path.is_file()]
    assert {"run.json", "report.html", "page.html", "kept.txt"} <= {path.name for path in written}
    assert (work / "piped").is_dir()
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    with tarfile.open(fileobj=io.BytesIO((work / "repaired" / "0.tar").read_bytes())) as tar:
        assert len(tar.getnames()) == 8


def test_the_feed_reads_a_url_with_a_secret_and_hides_it(server: str):
    feed = wdsflow.feed(f"http://{server}/0.tar?token={SECRET}", batch_size=2, fields=("__key__",))
    assert sum(len(batch[0]) for batch in feed) == 4
    assert SECRET not in repr(feed) + str(feed.state_dict())


@pytest.mark.skipif(importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP")
def test_openclip_trains_on_a_url_with_a_secret_and_does_not_log_it(tmp_path: Path, server: str):
    write_model(tmp_path)
    data = (
        "--train-data",
        f"http://me:{SECRET}@{server}/0.tar",
        "--val-data",
        f"http://{server}/0.tar?token={SECRET}",
    )
    sizes = (
        "--train-num-samples",
        "4",
        "--val-num-samples",
        "4",
        "--batch-size",
        "2",
        "--workers",
        "1",
        "--epochs",
        "1",
    )
    place = (
        "--model",
        f"local-dir:{tmp_path}/model",
        "--device",
        "cpu",
        "--logs",
        str(tmp_path / "logs"),
        "--name",
        "run",
    )
    words = ["train", "--", *data, *sizes, *place, "--dataset-type", "webdataset"]
    done = subprocess.run(
        [sys.executable, "-m", "wdsflow", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    written = {
        path.name: path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file()
    }
    assert b"train_data: http://***@" in written["params.txt"]
    assert b"Train Epoch: 0" in written["out.log"]
    assert {name for name, content in written.items() if SECRET.encode() in content} == set()
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "https://host/go?to=https%3A%2F%2Fs3%2Fa.tar%3Fsig%3Dabcdefgh%26n%3D1",
            "sig%3D***%26n%3D1",
        ),
        ("https://host/go?to=https%3A%2F%2Fs3%3Fn%3D1%26TOKEN%3Dabcdefgh", "%26TOKEN%3D***"),
        ("https://host/go?to=https%3A%2F%2Fs3%2Fget%3Fkey%3Da.tar", "%3Fkey%3Da.tar"),
    ],
)
def test_secrets_of_a_url_within_another_are_hidden(text, shown, monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())
    assert secrets.redact(text).endswith(shown)
    assert secrets.knows_secrets() is ("***" in shown)


def test_a_secret_that_was_hidden_once_is_hidden_wherever_it_occurs(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())
    assert secrets.redact_known("no p%40ssword here") == "no p%40ssword here"
    assert secrets.redact("https://me:p%40ssword@host/a.tar") == "https://***@host/a.tar"
    assert secrets.redact_known("no p%40ssword, p@ssword here") == "no ***, *** here"


def test_lines_that_are_written_together_are_shown_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_known", set())

    with without_secrets([f"https://me:{SECRET}@host/a.tar"]):
        sys.stderr.writelines(["a library\n", f"was refused with {SECRET}\n"])

    assert capsys.readouterr().err.startswith("a library\nwas refused with ***\n")


FAILS = f"""
import sys
import wdsflow.cli.main
from wdsflow.cli import entry_point
from wdsflow.text.secrets import redact


def main():
    redact("https://me:{SECRET}@host/a.tar")
    raise RuntimeError("a library was refused with {SECRET}")


sys.modules["wdsflow.cli.main"].main = main
entry_point.run()
"""


def test_a_traceback_that_ends_the_program_is_printed_without_secrets() -> None:
    program = [sys.executable, "-c", FAILS]

    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("RuntimeError: a library was refused with ***\n")
    assert SECRET not in done.stderr
