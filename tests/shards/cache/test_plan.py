"""The plans of runs, which other processes read while they are replaced."""

import multiprocessing
import resource
from pathlib import Path

from wdsflow.shards.atomic import create_temporary
from wdsflow.shards.cache import plan
from wdsflow.shards.cache.folder import CacheFolder
from wdsflow.shards.cache.locks import unlock
from wdsflow.shards.cache.plan import RunPlan, next_uses_of_runs


def _begin_on_a_full_disk(path: Path, answers) -> None:
    """Write a plan of 180,016 bytes where files cannot grow beyond 100,000."""
    folder = CacheFolder(path)
    run = RunPlan(folder)
    run.begin_epoch([7, 8], 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        run.begin_epoch([7] * 20_000, 20_000)
    except OSError as error:
        answers.send((str(error), next_uses_of_runs(folder)))
    else:
        answers.send(("no error", next_uses_of_runs(folder)))


def test_a_plan_that_does_not_fit_the_disk_is_an_error(tmp_path):
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    child = context.Process(target=_begin_on_a_full_disk, args=(tmp_path, theirs))
    child.start()
    theirs.close()
    message, needed = ours.recv()
    child.join()
    assert "File too large" in message
    assert needed == {7: 0.0, 8: 1.0}


def test_a_new_plan_is_not_removed_before_it_is_locked(tmp_path, monkeypatch):
    folder = CacheFolder(tmp_path)
    context = multiprocessing.get_context("forkserver")
    lookers: list[multiprocessing.process.BaseProcess] = []

    def create_unlocked(path: Path) -> tuple[Path, int]:
        temporary, file = create_temporary(path)
        unlock(file)
        looker = context.Process(target=_look, args=(tmp_path,))
        looker.start()
        # It waits for the lock of the folder.
        looker.join(0.3)
        lookers.append(looker)
        return temporary, file

    monkeypatch.setattr(plan, "create_temporary", create_unlocked)
    run = RunPlan(folder)
    run.begin_epoch([7, 8], 2)
    lookers[0].join()
    assert next_uses_of_runs(folder) == {7: 0.0, 8: 1.0}
    run.close()


def _look(path: Path) -> None:
    folder = CacheFolder(path)
    with folder.locked():
        next_uses_of_runs(folder)
