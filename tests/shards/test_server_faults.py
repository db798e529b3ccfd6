"""What faults of servers are called, and after which of them a server is asked again."""

import time

import pytest

from wdsflow.shards.source import retries
from wdsflow.shards.source.base import SourceChangedError, SourceError
from wdsflow.shards.source.retries import with_retries
from wdsflow.shards.source.server_waits import ServerWaits
from wdsflow.shards.source.source_errors import source_error


class Answered(Exception):
    """A server's answer with a status, as aiohttp raises it."""

    def __init__(self, status, text="answered"):
        super().__init__(text)
        self.status = status


class Boto(Exception):
    """The same, as botocore raises it."""

    def __init__(self, status):
        super().__init__("s3")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class NoCredentialsError(Exception):
    """As botocore's."""


class FileExpired(Exception):
    """As s3fs's."""


def after(error, cause):
    error.__cause__ = cause
    return error


CASES = {
    "not found": (FileNotFoundError("x"), "missing", "no such file: x", 1),
    "not found after 404": (
        after(FileNotFoundError("x"), Answered(404)),
        "missing",
        "no such file: x",
        1,
    ),
    "not found after 410": (
        after(FileNotFoundError("x"), Answered(410)),
        "missing",
        "no such file: x",
        1,
    ),
    "not found after 403": (
        after(FileNotFoundError("x"), Answered(403)),
        "denied",
        "status 403: answered",
        1,
    ),
    "not found after 503": (
        after(FileNotFoundError("x"), Answered(503)),
        "io",
        "Answered: answered",
        4,
    ),
    "no permission": (PermissionError("keep out"), "denied", "keep out", 1),
    "401": (Answered(401), "denied", "status 401: answered", 1),
    "404": (Answered(404), "missing", "no such file: answered", 1),
    "400": (Answered(400), "io", "Answered: answered", 1),
    "408": (Answered(408), "io", "Answered: answered", 4),
    "429": (Answered(429, ""), "io", "Answered: Answered", 4),
    "499": (Answered(499), "io", "Answered: answered", 1),
    "500": (Answered(500), "io", "Answered: answered", 4),
    "s3 403": (Boto(403), "denied", "status 403: s3", 1),
    "s3 503": (Boto(503), "io", "Boto: s3", 4),
    "status of the cause": (after(OSError("x"), Answered(404)), "missing", "no such file: x", 1),
    "no credentials": (
        NoCredentialsError("none"),
        "denied",
        "none: set credentials, or FSSPEC_S3='{\"anon\": true}' for a public bucket",
        1,
    ),
    "connection": (ConnectionResetError("reset"), "io", "ConnectionResetError: reset", 4),
    "protocol": (ValueError("Protocol not known: zz"), "refused", "Protocol not known: zz", 1),
    "value": (ValueError("odd"), "io", "ValueError: odd", 1),
    "type": (TypeError("odd"), "io", "TypeError: odd", 1),
    "source": (SourceError("cut", "as it was"), "cut", "as it was", 4),
}


@pytest.mark.parametrize(("error", "kind", "text", "tries"), CASES.values(), ids=CASES)
def test_a_fault_gets_a_name_and_is_tried_again_if_it_may_pass(
    error, kind, text, tries, monkeypatch
):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    # Of a server that is busy, by its own word.
    monkeypatch.setattr(retries, "waits", ServerWaits(sleep=slept.append))
    count = 0

    def action():
        nonlocal count
        count += 1
        raise error

    with pytest.raises(SourceError) as caught:
        with_retries(action, "s3://bucket/0.tar")
    assert (caught.value.kind, str(caught.value), count) == (kind, text, tries)
    assert slept == pytest.approx([0.2, 1.0, 4.0][: tries - 1], rel=0.15)


def test_a_file_that_was_replaced_is_not_asked_for_again(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("asked again"))

    def action():
        raise FileExpired("gone")

    with pytest.raises(SourceChangedError):
        with_retries(action, "s3://bucket/0.tar")


def test_an_answer_after_faults_is_returned(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    answers = [ConnectionError("one"), Answered(500), "data"]

    def action():
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    assert with_retries(action, "http://x/0.tar") == "data"
    assert slept == [0.2, 1.0]


@pytest.mark.parametrize(
    ("url", "text", "fix"),
    [
        ("s3://b/0.tar", "Install s3fs to access S3", "remote"),
        ("gs://b/0.tar", "no words", "remote"),
        ("hf://b/0.tar", "Install huggingface_hub to use this", "remote"),
        ("abfs://b/0.tar", "Install adlfs to access Azure", "adlfs"),
        ("zz://b/0.tar", "no words", ""),
    ],
)
def test_a_library_that_is_missing_is_named(url, text, fix):
    error = source_error(ImportError(text), url)
    scheme = url.partition(":")[0]
    assert error.kind == "needs-library"
    assert str(error).startswith(f"{scheme}: urls need a library that is not installed ({text})")
    assert (fix in error.fix) if fix else not error.fix
