"""For a loader that does not resume, the report names the state that is wrong.

test_check_loader.py runs the same loaders in new processes.
"""

import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from wdsflow.validate.pipeline.checks.check_resume import check_resume
from wdsflow.validate.pipeline.loader import loader_serving
from wdsflow.validate.pipeline.loader.loader_messages import LoaderRequest, LoaderRun
from wdsflow.validate.pipeline.loader.loader_runs import LoaderRuns
from wdsflow.validate.verdicts.check_result import CheckResult

LOADERS = Path(__file__).parent / "plain_loaders.py"


class RunsHere(LoaderRuns):
    """Runs of a loader one after the other, in this process: new ones take seconds."""

    def run(self, request: LoaderRequest) -> LoaderRun:
        with open(os.devnull, "wb") as line:
            process = loader_serving._LoaderProcess(request, line)
            try:
                process.run_loader(self.spec, ())
            except Exception as error:
                loader_serving._set_failure(process.run, error)
        return process.run

    def run_all(self, requests: Sequence[LoaderRequest]) -> list[LoaderRun]:
        return [self.run(request) for request in requests]

    def run_ranks(self, requests: Sequence[LoaderRequest]) -> list[LoaderRun]:
        return self.run_all(requests)


@pytest.fixture(autouse=True)
def no_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # This process would stay a member of the group.
    monkeypatch.setattr(loader_serving, "join_group", lambda _: "")
    with mock.patch.dict(os.environ):
        yield


def resumed(name: str, folder: Path) -> CheckResult:
    with tarfile.open(folder / "0.tar", "w") as tar:
        for number in range(20):
            tar.addfile(tarfile.TarInfo(f"{number:06d}.txt"))
    runs = RunsHere(f"{LOADERS}:{name}")
    keys = frozenset(f"{number:06d}" for number in range(20))
    request = LoaderRequest((str(folder / "0.tar"),), epochs=3, keys=keys, unique_keys=True)
    base = runs.run(request)
    assert base.status == "ended", base.failure
    return check_resume(runs, request, base)


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "ForgetsItsEpoch",
            [
                (
                    "resumed from the state taken at the end of epoch 1:"
                    " the samples come in another order than without the interruption"
                ),
                (
                    "resumed from the state taken after 14 items of epoch 2:"
                    " 5 samples repeated (such as 000006) and 5 samples lost (such as 000007)"
                ),
            ],
        ),
        (
            "OnlyOnce",
            [
                "resumed a second time, after 2 more items of epoch 1: 13 samples repeated (such as 000016)"
            ],
        ),
        (
            "RefusesItsState",
            [
                "resumed from the state taken at the start of epoch 1: plain_loaders.py: KeyError: 'index'"
            ],
        ),
    ],
)
def test_the_state_from_which_a_loader_does_not_resume_is_named(
    name: str, messages: list[str], tmp_path: Path
) -> None:
    result = resumed(name, tmp_path)

    texts = [re.sub(r"\S*(plain_loaders.py):\d+", r"\1", fault.message) for fault in result.faults]
    assert result.answer == "wrong"
    assert texts == [f"plain_loaders.py: {message}" for message in messages]
