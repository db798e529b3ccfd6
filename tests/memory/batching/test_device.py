"""Devices by name, shares of their memory, and what has to be so before PyTorch starts."""

import contextlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from wdsflow.memory.batching import device as devices
from wdsflow.memory.batching import device_names
from wdsflow.memory.batching.allocator import other_frameworks, prepare_environment
from wdsflow.memory.batching.device import open_device, parse_memory_cap
from wdsflow.memory.batching.device_names import choose_devices

ROOT = Path(__file__).resolve().parents[3]


def visible(monkeypatch: pytest.MonkeyPatch, cuda: int, *, mps: bool = False) -> None:
    monkeypatch.setattr(device_names, "_visible", lambda: (cuda, mps))


@pytest.mark.parametrize(
    ("asked", "cuda", "mps", "named"),
    [
        ("auto", 2, False, ["cuda:0", "cuda:1"]),
        ("auto", 0, True, ["mps"]),
        ("auto", 0, False, ["cpu"]),
        ("cuda", 3, False, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:2, CUDA:0", 3, False, ["cuda:2", "cuda:0"]),
        ("cpu", 3, False, ["cpu"]),
    ],
)
def test_devices_are_chosen(monkeypatch, asked, cuda, mps, named):
    visible(monkeypatch, cuda, mps=mps)

    assert choose_devices(asked) == named


@pytest.mark.parametrize(
    "asked", ["cuda:2", "cuda:-1", "cuda:00", "mps", "gpu", "", "cuda:0,", "tpu,cuda:0"]
)
def test_a_device_that_is_not_there_is_refused_with_what_is(monkeypatch, asked):
    visible(monkeypatch, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")

    with pytest.raises(
        ValueError, match=r"there are 2 CUDA devices \(CUDA_VISIBLE_DEVICES is '4,5'\) and cpu"
    ):
        choose_devices(asked)


def test_a_device_named_twice_is_refused(monkeypatch):
    visible(monkeypatch, 2)

    with pytest.raises(ValueError, match="twice"):
        choose_devices("cuda:1,cuda:1")


def test_cuda_without_a_device_is_refused(monkeypatch):
    visible(monkeypatch, 0)

    with pytest.raises(ValueError, match="no such device as 'cuda'"):
        choose_devices("cuda")


@pytest.mark.usefixtures("new_interpreters")
def test_choosing_leaves_processes_free_to_fork():
    script = """
import sys
from wdsflow.memory.batching.device_names import choose_devices
chosen = choose_devices("auto")
torch = sys.modules.get("torch")
assert torch is None or not torch.cuda.is_initialized()
assert chosen
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        ("8GiB", 8 << 30),
        ("80%", int(0.8 * (40 << 30))),
        (" 12.5 % ", 5 << 30),
        ("100%", 40 << 30),
        ("90GiB", 40 << 30),
    ],
)
def test_a_share_of_memory_is_a_size_or_a_part(memory, size):
    assert parse_memory_cap(memory, 40 << 30) == size


@pytest.mark.parametrize("memory", ["0%", "101%", "-5%", "0B", "%", "8G", "half"])
def test_a_share_that_makes_no_sense_is_refused(memory):
    with pytest.raises(ValueError, match=r"size|memory|meanings"):
        parse_memory_cap(memory, 40 << 30)


def test_the_cpu_has_no_memory_of_its_own_to_cap():
    assert open_device("cpu").name == "cpu"
    with pytest.raises(ValueError, match="the device is the CPU"):
        open_device("cpu", "80%")


def test_the_allocator_is_set_under_both_names():
    environ: dict[str, str] = {}

    prepare_environment(environ)

    assert environ == {
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }


@pytest.mark.parametrize(
    "name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"]
)
def test_what_the_user_set_for_the_allocator_stays(name):
    environ = {name: "max_split_size_mb:64"}

    prepare_environment(environ)

    assert environ == {name: "max_split_size_mb:64"}


def test_other_frameworks_in_this_process_are_named(monkeypatch):
    for name in ("tensorflow", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert other_frameworks().keys().isdisjoint({"tensorflow", "jax"})

    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))

    assert "TF_FORCE_GPU_ALLOW_GROWTH" in other_frameworks()["tensorflow"]


@pytest.mark.usefixtures("new_interpreters")
def test_importing_the_runner_does_not_import_pytorch():
    script = """
import sys
import wdsflow.memory.batching.runner, wdsflow.memory.batching.device
import wdsflow.memory.batching.device
assert not {"torch", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def test_a_gpus_memory_is_what_this_process_can_get_of_it(monkeypatch):
    torch = pytest.importorskip("torch")
    peak = [500]
    for name, found in (
        ("mem_get_info", lambda device: (3_000, 8_000)),
        ("memory_reserved", lambda device: 900),
        ("memory_allocated", lambda device: 400),
        ("max_memory_allocated", lambda device: peak[0]),
        ("reset_peak_memory_stats", lambda device: peak.__setitem__(0, 400)),
        ("get_device_name", lambda device: f"a card at {device}"),
    ):
        monkeypatch.setattr(torch.cuda, name, found)
    free, capped = devices.TorchDevice("cuda:1"), devices.TorchDevice("cuda:1", 1_000)
    assert free.memory() == {
        "free": 3_000, "total": 8_000, "reserved": 900, "allocated": 400, "fragmented": 500, "available": 3_500
    }  # fmt: skip
    assert (capped.memory()["available"], capped.memory()["cap"]) == (600, 1_000)
    assert devices.TorchDevice("cuda:1", 300).memory()["available"] == 0
    free.start_measuring()
    assert free.peak_growth() == 0
    peak[0] = 750  # the most since begin; 400 were allocated then
    assert free.peak_growth() == 350


def test_apples_device_tells_what_it_holds_now(monkeypatch):
    torch = pytest.importorskip("torch")
    held = [100]
    for name, found in (
        ("recommended_max_memory", lambda: 1_000),
        ("driver_allocated_memory", lambda: 300),
        ("current_allocated_memory", lambda: held[0]),
    ):
        monkeypatch.setattr(torch.mps, name, found)
    device = devices.TorchDevice("mps")
    assert device.memory() == {
        "free": 700, "total": 1_000, "reserved": 300, "allocated": 100, "fragmented": 200, "available": 900
    }  # fmt: skip
    device.start_measuring()
    held[0] = 240
    assert device.peak_growth() == 140


@pytest.mark.parametrize(("name", "kind"), [("cuda:1", "cuda"), ("mps", "mps")])
def test_a_device_waits_for_its_work_and_gives_its_cache_back(monkeypatch, name, kind):
    torch = pytest.importorskip("torch")
    asked: list[tuple[object, ...]] = []

    def chosen(which: object) -> contextlib.AbstractContextManager[None]:
        asked.append(("device", which))
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", chosen)
    for each in ("synchronize", "empty_cache"):
        for module in (torch.cuda, torch.mps):
            monkeypatch.setattr(
                module,
                each,
                lambda *of, each=each, module=module: asked.append((module, each, *of)),
            )
    device, module = devices.TorchDevice(name), getattr(torch, kind)
    waits = (module, "synchronize", *([name] if kind == "cuda" else []))
    device.check()
    assert asked == [waits]
    device.release()
    there = [("device", name)] if kind == "cuda" else []
    assert asked == [waits, waits, *there, (module, "empty_cache")]


@pytest.mark.parametrize(
    ("name", "memory", "size", "bound"),
    [("cuda:1", "25%", 2_000, 1_980), ("cuda:0", "30MiB", 30, 15), ("mps", "50%", 400, 400)],
)
def test_a_cap_bounds_what_pytorch_allocates_on_the_device_less_a_segment_of_cuda(
    monkeypatch, name, memory, size, bound
):
    torch = pytest.importorskip("torch")
    set_to: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3_000 << 20, 8_000 << 20))
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 800 << 20)
    for module in (torch.cuda, torch.mps):
        monkeypatch.setattr(
            module, "set_per_process_memory_fraction", lambda *words: set_to.append(words)
        )
    device = open_device(name, memory)
    assert isinstance(device, devices.TorchDevice)
    assert (device.name, device.cap) == (name, size << 20)
    assert set_to == [(bound / 800,) if name == "mps" else (bound / 8_000, name)]
    uncapped = open_device(name)
    assert isinstance(uncapped, devices.TorchDevice)
    assert (uncapped.cap, len(set_to)) == (None, 1)
