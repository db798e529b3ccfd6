"""Several model processes, and their GPU handling as far as it is testable without a GPU."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.models import own, test_protocol
from wdsflow.memory.batching.device_names import computes_bf16
from wdsflow.models.calls import Begun, ServerSetup
from wdsflow.models.device_process import DeviceProcess
from wdsflow.models.loaded import _run_on_cpu
from wdsflow.models.process_files import ended_marker, pending_call_count
from wdsflow.models.remote_models import RemoteModels
from wdsflow.shards.scratch import make_scratch, remove_scratch
from wdsflow.stages.scores.model.pictures.picture_batch import stacked_pictures

KEY = b"k" * 32


def test_a_request_goes_where_the_fewest_wait(tmp_path):
    folder = make_scratch(tmp_path, "models")
    busy, idle = f"{folder}/0", f"{folder}/1"
    script = [Begun(), test_protocol.LETTERS]
    processes = test_protocol.Process(busy, script, script), test_protocol.Process(idle, script)
    models, model = RemoteModels([busy, idle], KEY), own.Letters().models()[0]
    try:
        for waiting, address in (((3, 1), idle), ((3, 4), busy)):
            for each, count in zip((busy, idle), waiting, strict=True):
                Path(f"{each}.load").write_text(f"{count:8}")
            sent = {each.address: len(each.asked) for each in processes}
            assert models.map(model, ["abc"]) == [3]
            assert [each.address for each in processes if len(each.asked) > sent[each.address]] == [
                address
            ]
        Path(f"{busy}.load").write_text("9")
        ended_marker(idle).touch()  # it will not be replaced
        assert models.map(model, ["abc"]) == [3]
    finally:
        models.close()
        for process in processes:
            process.close()
        remove_scratch(folder)


@pytest.mark.deep
def test_the_faster_of_two_processes_gets_more_windows(tmp_path, monkeypatch):
    monkeypatch.setenv("SLOW", str(tmp_path / "slow"))
    folder = make_scratch(tmp_path, "models")
    processes = [
        DeviceProcess(ServerSetup(f"{folder}/{number}", KEY, "cpu", None)) for number in range(2)
    ]
    addresses = [process.setup.address for process in processes]
    model = own.Paced().models()[0]
    ran: list[int] = []
    try:
        for address in addresses:  # the first that loads is the slow one
            RemoteModels([address], KEY).prepare([model])

        def work() -> None:
            models = RemoteModels(addresses, KEY)
            for _ in range(12):
                ran.extend(models.map(model, ["a"]))
            models.close()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = sorted(ran.count(pid) for pid in set(ran))
        assert sum(counts) == 36
        slow = ran.count(int(Path(tmp_path / "slow").read_text()))
        assert 1 <= slow <= 12
        assert [pending_call_count(address) for address in addresses] == [0, 0]
        ended_marker(addresses[0]).touch()  # nothing is sent to a process that will not be replaced
        again = RemoteModels(addresses, KEY)
        assert len({again.map(model, ["a"])[0] for _ in range(4)}) == 1
        again.close()
    finally:
        for process in processes:
            process.end()
        remove_scratch(folder)


def test_a_process_that_is_starting_has_nothing_to_do_and_one_that_is_gone_gets_nothing(tmp_path):
    address = tmp_path / "0"
    assert pending_call_count(str(address)) == float("inf")
    address.touch()
    assert pending_call_count(str(address)) == 0
    ended_marker(str(address)).touch()
    assert pending_call_count(str(address)) == float("inf")


def test_pictures_in_one_piece_of_memory_are_not_copied():
    whole = np.arange(4 * 3 * 5 * 7, dtype=np.uint8).reshape(4, 3, 5, 7)
    one = stacked_pictures(list(whole))
    assert one is not None
    assert np.shares_memory(one, whole)
    for pictures in (
        [whole[1], whole[0]],
        [whole[0], whole[2]],
        [whole[0], whole[1].copy()],
        [whole[3]],
    ):
        found = stacked_pictures(pictures)
        assert found is not None
        assert (found == np.stack(pictures)).all()
    assert stacked_pictures([]) is None
    assert stacked_pictures(["a", "b"]) is None
    assert stacked_pictures([whole[0], whole[0, :, :4]]) is None
    assert stacked_pictures([np.zeros(3, np.int32)] * 2) is None


def listing(folder: Path, *rows: str) -> None:
    """Put a command in the place of nvidia-smi, which prints these rows."""
    file = folder / "nvidia-smi"
    file.write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("rows", "visible", "expected"),
    [
        (["GPU-1a, 9.0"], None, True),
        (["GPU-1a, 8.0", "GPU-2b, 7.5"], None, False),
        (["GPU-1a, 8.0", "GPU-2b, 7.5"], "GPU-1", True),
        (["GPU-1a, 8.0", "GPU-2b, 7.5"], "0", False),  # CUDA may count in another order
        (["GPU-1a, 8.6"], "MIG-7", True),
        (["no devices were found"], None, False),
        ([], None, False),
    ],
)
def test_half_precision_is_for_gpus_that_compute_in_it(
    tmp_path, monkeypatch, rows, visible, expected
):
    import torch

    listing(tmp_path, *rows)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    else:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("wdsflow.memory.batching.device_names._DRIVERS", ("/dev/null",))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert computes_bf16("auto") is expected
    assert computes_bf16("cpu") is False


def test_without_nvidia_smi_models_keep_full_precision(tmp_path, monkeypatch):
    import torch

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("wdsflow.memory.batching.device_names._DRIVERS", ("/dev/null",))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert computes_bf16("cuda:0") is False


def test_a_model_is_loaded_on_the_cpu_for_the_first_item_that_needs_it_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own.LoadsAtSecond, "loads", [1])
    (model,) = own.LoadsAtSecond(times=10).models()

    run = _run_on_cpu(model)

    assert own.LoadsAtSecond.loads == [1]
    assert [run(["abc", "d"]), run(["ef"])] == [[30, 10], [20]]
    assert own.LoadsAtSecond.loads == [1, 1]
