"""A loop built like OpenCLIP's resumes from each checkpoint as if it had never ended."""

import contextlib
import importlib.util
import logging
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.golden_file import check_text
from wdsflow.training.feed.resume.state import OtherSubset
from wdsflow.training.feed_options import FeedError, FeedStopped, ResumeError
from wdsflow.training.launch import checkpoints
from wdsflow.training.launch.resume import PatchedRun

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)

GOLDEN = Path(__file__).parent / "golden" / "whole_resumes.txt"
BATCHES = 6
# The parts of open_clip_train.main that matter here, under the names and with the arguments that
# they have there.
MAIN = """
import os
import random
import torch
from open_clip_train.file_utils import pt_load

get_data = None

def train_one_epoch(model, data, loss, epoch, optimizer, scaler, scheduler, dist_model, args, tb_writer=None):
    for number, batch in enumerate(data["train"].dataloader):
        model.seen.append((epoch, number, batch, random.random(), float(torch.rand(()))))

def evaluate(model, data, epoch, args, tb_writer=None, tokenizer=None):
    random.random()
    torch.rand(())
    return epoch

def main(model, args):
    first = pt_load(args.resume, map_location="cpu")["epoch"] if args.resume else 0
    data = get_data(args, None, epoch=first)
    for epoch in range(first, args.epochs):
        train_one_epoch(model, data, None, epoch, model, None, None, None, args, tb_writer=None)
        assert evaluate(model, data, epoch, args) == epoch
        checkpoint = {"epoch": epoch + 1, "name": args.name}
        if epoch + 1 == args.epochs or (args.save_frequency and (epoch + 1) % args.save_frequency == 0):
            torch.save(checkpoint, os.path.join(args.checkpoint_path, f"epoch_{epoch + 1}.pt"))
        if args.save_most_recent:
            torch.save(checkpoint, os.path.join(args.checkpoint_path, "tmp.pt"))
            os.replace(os.path.join(args.checkpoint_path, "tmp.pt"), os.path.join(args.checkpoint_path, "epoch_latest.pt"))
    torch.save([1, 2], os.path.join(args.checkpoint_path, "other.pt"))
"""


class Model:
    """Weights and optimizer in one; remembers what was trained on."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"seen": len(self.seen)}


class Killed(BaseException):
    """What ends a run: nothing of ours handles it."""


class Loader:
    """Yields the numbers of its batches.

    It ends the run when another batch is requested after ``last``.
    """

    num_batches = BATCHES

    def __init__(self, last: int = 99, refusal: ValueError | None = None) -> None:
        self.at, self.last, self.refusal = 0, last, refusal

    def __iter__(self) -> Iterator[int]:
        while True:
            if self.at == self.last:
                raise Killed
            self.at += 1
            yield self.at
            if self.at % BATCHES == 0:
                return

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.at = state["at"]


class Shuffled:
    """One of OpenCLIP's other loaders: it has no state.

    It shuffles by the global generators when an epoch begins.
    """

    num_batches = BATCHES

    def __init__(self, last: int = 99) -> None:
        self.given, self.last = 0, last

    def __iter__(self) -> Iterator[int]:
        for number in random.sample(range(BATCHES), BATCHES):
            if self.given == self.last:
                raise Killed
            self.given += 1
            yield number


def arguments(folder: Path, **more: Any) -> SimpleNamespace:
    folder.mkdir(exist_ok=True)
    named = {
        "save_frequency": 1,
        "save_most_recent": False,
        "accum_freq": 1,
        "epochs": 3,
        "resume": None,
        "logs": "x",
    }
    named |= {"save_logs": True, "rank": 0, "world_size": 1, "device": "cpu", "name": "run"}
    return SimpleNamespace(checkpoint_path=str(folder), **{**named, **more})


def trained(
    args: SimpleNamespace, loader: Any, every: int | None = None, get_data: Any = None
) -> list[Any]:
    """Train until the run ends or is killed, and return what the model saw."""
    main, model = ModuleType("main"), Model()
    exec(MAIN, vars(main))
    data = {"train": SimpleNamespace(dataloader=loader)}
    run = PatchedRun(main, get_data or (lambda *words, **named: data), every)
    before = vars(main).copy()
    seed = 2 if args.resume else 1  # what a resumed run draws is not what its seed says
    random.seed(seed)
    torch.manual_seed(seed)
    with run.installed(), contextlib.suppress(Killed):
        main.main(model, args)
    assert {name: vars(main).get(name) for name in vars(main)} == before
    return model.seen


def latest(folder: Path) -> Path | None:
    """Return the checkpoint that OpenCLIP finds by ``--resume latest``."""
    found = [path for path in folder.iterdir() if path.name != "other.pt"]
    natural = sorted(
        found,
        key=lambda path: [
            int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))
        ],
    )
    return natural[-1] if natural else None


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "every", "kind", "more"),
    [
        ("only ends of epochs", None, Loader, {}),
        ("every second end of an epoch", None, Loader, {"save_frequency": 2}),
        ("every 4 steps", 4, Loader, {}),
        ("every 2 steps of 2 batches", 2, Loader, {"accum_freq": 2, "save_frequency": 0}),
        ("every step, one file", 1, Loader, {"save_most_recent": True, "save_frequency": 0}),
        ("another loader", None, Shuffled, {}),
    ],
)
def test_a_run_that_is_killed_anywhere_resumes_as_if_it_had_not_been(
    tmp_path, name, every, kind, more
):
    whole, lines = trained(arguments(tmp_path / "whole", **more), kind(), every), []
    assert len(whole) == 3 * BATCHES
    for last in range(3 * BATCHES):
        folder = tmp_path / str(last)
        seen = trained(arguments(folder, **more), kind(last), every)
        assert seen == whole[:last]
        files = sorted(path.name for path in folder.iterdir())
        resumed = trained(
            arguments(folder, **more, resume=str(latest(folder)) if files else None), kind(), every
        )
        assert resumed == whole[len(whole) - len(resumed) :]
        line = f"resumes after {len(whole) - len(resumed)}: {' '.join(files) or 'no checkpoint'}"
        if not lines or not lines[-1].endswith(line):
            lines.append(f"killed after {last} batches or more, {line}")
    lines.append(
        f"at the end: {' '.join(sorted(path.name for path in (tmp_path / 'whole').iterdir()))}"
    )
    check_text(GOLDEN, name, "\n".join(lines))


def refuse(error: Exception) -> Any:
    """Return a ``get_data`` that fails."""

    def get_data(*_: Any, **named: Any) -> Any:
        raise error

    return get_data


def ours(error: type[Exception], text: str, hint: str = "") -> Any:
    """Return a ``get_data`` that raises an error as if from wdsflow's own code.

    The name of its module marks it as wdsflow's.
    """
    source = f"def get_data(*words, **named):\n    error = kind({text!r})\n    error.hint = {hint!r}\n    raise error\n"
    names = {"kind": error, "__name__": "wdsflow.training.openclip"}
    exec(source, names)
    return names["get_data"]


@pytest.mark.parametrize(
    ("get_data", "found"),
    [
        (refuse(ValueError("no such model")), ValueError("no such model")),
        (refuse(AssertionError()), AssertionError()),
        (refuse(FeedStopped("decoder 3 was ended")), FeedStopped("decoder 3 was ended")),
        (refuse(KeyError("jpg")), KeyError("jpg")),
        (ours(ValueError, "no shards"), FeedError("no shards")),
        (ours(OSError, "0.tar: no such file"), FeedError("0.tar: no such file")),
        (
            ours(ValueError, "no shards", "name them by --train-data"),
            FeedError("no shards\n  name them by --train-data"),
        ),
        (ours(KeyError, "jpg"), KeyError("jpg")),
        (ours(ValueError, ""), ValueError("")),
    ],
)
def test_what_wdsflow_says_of_its_data_is_a_message_and_what_others_raise_keeps_its_traceback(
    tmp_path, get_data, found
):
    with pytest.raises(type(found)) as raised:
        trained(arguments(tmp_path), Loader(), get_data=get_data)
    assert type(raised.value) is type(found)
    assert str(raised.value) == str(found)


def saved(folder: Path, last: int, kind: Any = Loader, every: int | None = None) -> str:
    """Return the checkpoint of a run that was killed."""
    trained(arguments(folder), kind(last), every)
    found = latest(folder)
    assert found is not None
    return str(found)


def other_feed() -> list[tuple[str, ValueError]]:
    subset = OtherSubset(
        "the state is of another feed: where: 'a' then, 'b' now", None, "a", again=True
    )
    subset.fixes = ["to resume with the samples of the checkpoint: wdsflow train --where a"]
    return [("other samples", subset), ("another feed", ValueError("batch size: 8 then, 4 now"))]


def test_a_checkpoint_of_another_feed_is_refused_within_an_epoch_and_between_epochs_only_for_other_samples(
    tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    lines = []
    for where, last, every in (("within an epoch", 4, 4), ("between epochs", 7, None)):
        path = saved(tmp_path / where, last, every=every)
        caplog.clear()
        for name, refusal in other_feed():
            lines.append(f"--- {where}, {name}")
            try:
                seen = trained(arguments(tmp_path / where, resume=path), Loader(refusal=refusal))
            except ResumeError as error:
                lines.append(f"refused: {error}")
            else:
                lines.append(
                    f"begins with epoch {seen[0][0]}, batch {seen[0][1]}, after {seen[0][2] - 1} of the feed"
                )
        lines += [f"{record.levelname}: {record.getMessage()}" for record in caplog.records]
    check_text(GOLDEN, "of another feed", "\n".join(lines))


def test_where_a_run_cannot_resume_within_an_epoch_the_checkpoint_before_it_is_named(tmp_path):
    path = saved(tmp_path / "run", BATCHES + 2, every=2)
    with pytest.raises(ResumeError, match="cannot resume within epoch 1") as raised:
        trained(arguments(tmp_path / "run", resume=path, world_size=2), Loader())
    named = str(raised.value).rpartition("--resume ")[2]
    assert trained(arguments(tmp_path / "run", resume=named, world_size=2), Loader())[0][:2] == (
        1,
        0,
    )


def test_a_checkpoint_of_other_data_or_ranks_and_wishes_that_cannot_be_are_refused(
    tmp_path, caplog
):
    shards, csv = saved(tmp_path / "shards", 4, every=4), saved(tmp_path / "csv", 7, Shuffled)
    caplog.clear()
    # Between epochs that does no harm.
    assert trained(arguments(tmp_path / "csv", resume=csv), Loader())[0][0] == 1
    lines = [f"csv, now shards: {record.getMessage()}" for record in caplog.records]
    for name, loader, every, more in (
        ("shards, now csv", Shuffled(), None, {"resume": shards}),
        ("two ranks", Loader(), None, {"resume": shards, "world_size": 2}),
        ("steps of csv", Shuffled(), 3, {}),
        ("no logs", Loader(), 3, {"logs": "None"}),
        ("horovod", Loader(), 3, {"horovod": True}),
        ("sharded", Loader(), 3, {"fsdp": True, "fsdp_checkpoint": "sharded"}),
    ):
        with pytest.raises(ResumeError) as raised:
            trained(arguments(tmp_path / "refused", **more), loader, every)
        lines.append(f"{name}: {raised.value}")
    check_text(GOLDEN, "refusals", "\n".join(lines))
    # Another rank.
    assert (
        len(trained(arguments(tmp_path / "no logs", save_logs=False), Loader(), 3)) == 3 * BATCHES
    )
    torch.save({"epoch": 2, "name": "run"}, tmp_path / "others.pt")  # written without wdsflow
    assert [
        each[0]
        for each in trained(
            arguments(tmp_path / "own", resume=str(tmp_path / "others.pt")), Loader()
        )
    ] == [2] * 6


def test_a_rank_continues_with_its_own_feed_and_its_own_generators(tmp_path):
    whole, path = (
        trained(arguments(tmp_path / "whole"), Loader(), 4),
        saved(tmp_path / "one", 4, every=4),
    )
    checkpoint = torch.load(path)
    [own] = checkpoint["wdsflow"]["ranks"]
    torch.manual_seed(3)
    other = {"feed": {"at": 2}, "random": checkpoints.capture_random_states("cpu")}
    torch.save(checkpoint | {"wdsflow": checkpoint["wdsflow"] | {"ranks": [other, own]}}, path)
    assert (
        trained(arguments(tmp_path / "one", resume=path, rank=1, world_size=2), Loader())
        == whole[4:]
    )
