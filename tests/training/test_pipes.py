"""A ``pipe:`` URL, which runs a shell command, is refused without ``allow_pipe``.

That holds for every way to start a feed or a training.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import wdsflow
from tests.filtering.commands import run
from tests.training.shards import arguments, plain, samples, write_tar
from wdsflow import FeedOptions
from wdsflow.training.feed_options import ShardsError

PIPE = "pipe:touch PWNED; cat 0.tar"
WORDS = (
    "--train-num-samples",
    "8",
    "--batch-size",
    "4",
    "--workers",
    "1",
    "--dataset-type",
    "webdataset",
    "--epochs",
    "1",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tar(tmp_path / "0.tar", samples(0, 8))
    (tmp_path / "list.txt").write_text(f"0.tar\n{PIPE}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def openclip(**named: object) -> object:
    """Read all batches of the data that ``get_data`` makes of these arguments."""
    given = {"workers": 1, "batch_size": 4, "train_num_samples": 8, "dataset_type": "webdataset"}
    data = wdsflow.get_data(arguments(**{**given, **named}), (plain, plain))
    return [batch for each in data.values() for batch in each.dataloader]


ROADS: dict[str, Callable[[str], object]] = {
    "feed": lambda url: list(wdsflow.feed(url, batch_size=4, fields=("txt",))),
    "a mix": lambda url: list(
        wdsflow.feed({url: 1.0, "0.tar": 1.0}, batch_size=4, fields=("txt",))
    ),
    "training data": lambda url: openclip(train_data=url),
    "validation data": lambda url: openclip(train_data="0.tar", val_data=url),
    "drawn shards": lambda url: openclip(
        train_data=f"0.tar::{url}", dataset_resampled=True, train_data_upsampling_factors="1::1"
    ),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("url", [PIPE, "@list.txt"])
def test_python_refuses_and_says_how_to_allow_it(folder: Path, road: str, url: str):
    if (road, url) == ("drawn shards", "@list.txt"):
        url = "pipe:touch PWNED; cat {0..0}.tar"
    with pytest.raises(
        ShardsError, match=r"pipe:touch PWNED; cat 0\.tar would run a shell command"
    ) as refused:
        ROADS[road](url)
    _, allow, without = str(refused.value).splitlines()
    assert "allow_pipe=True" in allow
    assert without.strip() == "s3://, gs://, hf:// and https:// urls are read without a command"
    assert not (folder / "PWNED").exists()


def test_what_is_allowed_is_run(folder: Path):
    assert (
        len(
            list(
                wdsflow.feed(
                    PIPE, batch_size=4, fields=("txt",), options=FeedOptions(allow_pipe=True)
                )
            )
        )
        == 2
    )
    assert (folder / "PWNED").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), ("--train-data", PIPE)),
        (("--dry-run",), ("--train-data", PIPE)),
        ((), ("--train-data", "@list.txt")),
        ((), ("--train-data", "0.tar", "--val-data", PIPE)),
        (("--no-preflight",), ("--train-data", PIPE)),
    ],
    ids=["url", "dry run", "list", "validation", "unchecked"],
)
def test_train_refuses_and_says_how_to_allow_it(
    folder: Path, options: tuple[str, ...], named: tuple[str, ...]
):
    done = run(
        "train", *options, "--", *named, *WORDS, "--model", "RN50", "--logs", folder / "logs"
    )
    assert done.status in (1, 2), done
    assert "pipe:touch PWNED; cat 0.tar would run a shell command" in done.err
    assert "s3://, gs://, hf:// and https:// urls are read without a command" in done.err
    (allow,) = [line for line in done.err.splitlines() if "if it may run: wdsflow train " in line]
    assert "--allow-pipe -- --train-data" in allow
    assert not (folder / "PWNED").exists()
    # OpenCLIP has not begun, which would make a model for these shards.
    assert not (folder / "logs").exists()


def test_a_variable_of_webdataset_runs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The feed ignores GOPEN_REWRITE, and opens the URLs that it is given.

    With this variable webdataset opens other URLs.
    """
    monkeypatch.setenv("GOPEN_REWRITE", f"0.tar={PIPE}")
    assert len(list(wdsflow.feed("0.tar", batch_size=4, fields=("txt",)))) == 2
    assert openclip(train_data="0.tar")
    assert not (folder / "PWNED").exists()


def test_batches_of_openclips_own_loader_need_it_as_well(folder: Path):
    """OpenCLIP's own loader runs commands without asking.

    It reads NaFlex batches and text of variable length.
    """
    args = SimpleNamespace(
        **vars(arguments(train_data=PIPE, train_num_samples=8)), variable_text=True
    )
    with pytest.raises(ShardsError, match="would run a shell command"):
        wdsflow.get_data(args, (plain, plain))
    assert not (folder / "PWNED").exists()


def test_commands_are_not_run_ahead_of_their_epoch(folder: Path):
    options = FeedOptions(allow_pipe=True, status_every=0.0, decode_in="threads")
    one = wdsflow.feed(
        "pipe:echo run >> runs; cat 0.tar", batch_size=4, fields=("txt",), options=options
    )
    counted = len((folder / "runs").read_text().splitlines())
    for epoch in (1, 2):
        assert sum(len(texts) for (texts,) in one) == 8
        one.close()
        assert len((folder / "runs").read_text().splitlines()) == counted + epoch
