"""Model processes that end during work: each sample is scored once.

Only samples that caused the end are quarantined.
"""

import os
import threading
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.models import own
from wdsflow.memory.batching.attempt import POISONED, Failure
from wdsflow.models import server
from wdsflow.models.calls import ServerSetup
from wdsflow.models.loaded import ModelError
from wdsflow.models.model_location import ModelLocation
from wdsflow.models.models_at import _started_processes, models_at
from wdsflow.models.processes import ModelProcesses
from wdsflow.models.remote_models import RemoteModels


@pytest.fixture(autouse=True)
def quick_torch(tmp_path, monkeypatch):
    """Let model processes start at once, with a stub of torch.

    It has only what a process needs to run one of our models.
    """
    (tmp_path / "quick" / "torch").mkdir(parents=True)
    (tmp_path / "quick" / "torch" / "__init__.py").write_text(
        "from contextlib import nullcontext as inference_mode\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "quick")


def test_outputs_that_cannot_be_sent_are_an_error_and_the_process_lives_on():
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        with pytest.raises(ModelError, match=r"^the outputs of a model cannot be sent: .*lambda"):
            models.map(own.Unsendable(most=1000), ["a"])
        assert models.map(own.LargestText(most=1000), ["abc"]) == [3]
        models.close()


@pytest.mark.deep
def test_who_waits_for_a_process_that_another_ends_is_asked_again_and_loses_nothing():
    with ModelProcesses("cpu") as processes:
        model = own.Brittle(kills="deadly").models()[0]
        found = {}

        def ask(number):
            models = RemoteModels(processes.location.addresses, processes.location.key)
            items = [f"item {number} {each}" for each in range(6)]
            items[number] = "deadly" if number == 0 else items[number]
            found[number] = models.map(model, items)
            models.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    lost = {
        (number, at)
        for number, each in found.items()
        for at, one in enumerate(each)
        if isinstance(one, Failure)
    }
    assert lost == {(0, 0)}
    assert [len(each) for each in found.values()] == [6] * 4


def test_what_a_model_started_ends_with_its_process_in_whatever_session():
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        (left,) = models.map(own.Starts().models()[0], ["caption"])
        models.close()
    assert not psutil.pid_exists(left)


def test_any_number_of_samples_may_end_their_process(monkeypatch):
    monkeypatch.setattr("wdsflow.models.device_process.SERVERS", 3)
    texts = [("deadly" if number % 3 == 1 else "caption") + f" {number}" for number in range(3)]
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        found = models.map(own.Brittle(kills="deadly").models()[0], texts)
        models.close()
    assert [isinstance(each, Failure) for each in found] == [number % 3 == 1 for number in range(3)]


def test_processes_that_only_end_are_given_up(monkeypatch):
    monkeypatch.setattr("wdsflow.models.device_process.SERVERS", 2)
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        with pytest.raises(ModelError, match="ended again and again"):
            models.map(own.Brittle(kills="deadly").models()[0], ["deadly"] * 9)
        models.close()


def test_an_item_at_which_others_killed_the_process_is_tried_again(tmp_path):
    mark = tmp_path / "mark"
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        model = own.KilledOnce(mark=str(mark)).models()[0]
        assert models.map(model, ["a", "bc", "unlucky"]) == [1, 2, 7]
        models.close()
    assert mark.read_bytes() == b"xx"


def test_what_a_killed_process_worked_on_is_run_again_in_the_same_batch(tmp_path):
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        model = own.KilledOnce(mark=str(tmp_path / "mark"), times=1, counts_batch=True).models()[0]
        assert models.map(model, ["unlucky", "happier", "luckier"]) == [3, 3, 3]
        models.close()
    assert (tmp_path / "mark").read_bytes() == b"x"


def test_an_item_is_not_to_blame_for_ends_while_its_model_loads(tmp_path):
    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        model = own.KilledOnce(mark=str(tmp_path / "mark"), at="load", times=3).models()[0]
        assert models.map(model, ["lonely"]) == [6]
        with pytest.raises(ModelError, match="that loads the models ended, 5 times"):
            models.map(
                own.KilledOnce(mark=str(tmp_path / "other"), at="load", times=9).models()[0],
                ["lonely"],
            )
        models.close()


def test_a_process_that_is_killed_while_it_loads_is_replaced(tmp_path):
    with ModelProcesses("cpu") as processes:
        prepared = processes.prepare(
            [own.KilledOnce(mark=str(tmp_path / "mark"), at="load").models()[0]]
        )
    assert prepared == ()


def test_a_process_that_loses_its_device_reports_the_error_before_it_ends() -> None:
    model = own.Brittle(poisons="deadly").models()[0]

    with ModelProcesses("cpu") as processes:
        models = RemoteModels(processes.location.addresses, processes.location.key)
        outputs = models.map(model, ["abc", "deadly", "de"])
        models.close()

    failure = outputs.pop(1)
    assert outputs == [3, 2]
    assert failure.slug == POISONED
    assert failure.detail.endswith("CUDA error: an illegal memory access was encountered")


def test_calls_after_the_loss_of_a_device_find_no_process_until_the_next_one(
    tmp_path: Path,
) -> None:
    address = tmp_path / "0"
    address.touch()
    records = server._Records(ServerSetup(str(address), b"", "cpu", None))

    records.remove_address()
    # The next process may have removed it, too.
    records.remove_address()

    assert not address.exists()


def test_a_worker_without_an_address_starts_one_process_for_all_its_shards() -> None:
    model = own.LargestText(most=1000)
    location = ModelLocation(device="cpu", models_to_start=(model,))

    first = models_at(location)
    second = models_at(location)

    processes = _started_processes(location, (model,), os.getpid())
    with processes:
        _started_processes.cache_clear()
        assert first is second
        assert isinstance(first, RemoteModels)
        assert first.map(model, ["abc"]) == [3]
        first.close()


def test_a_process_that_cannot_load_its_first_models_is_not_kept() -> None:
    model = own.Brittle(fails="load").models()[0]
    location = ModelLocation(device="cpu", models_to_start=(model,))

    before = _started_processes.cache_info().currsize

    with pytest.raises(ModelError, match="no weights"):
        models_at(location)

    assert _started_processes.cache_info().currsize == before
