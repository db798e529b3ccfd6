"""Checks that the runner recovers from real out-of-memory errors.

Each item must come out once, in order, and only items that do not fit may fail.

On a GPU the process gets a cap, and a batch takes as many bytes of the device as it costs. Without
one a batch that costs more than the cap raises what PyTorch raises.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from .finding import Finding, MissingRequirement, Setting
from .process import run_at_once

_MIB = 1 << 20
# Shares of the cap.
_SMALL, _FITS, _LARGE = 0.02, 0.6, 1.15


class Item(NamedTuple):
    """What a batch is made of."""

    number: int
    # Bytes.
    size: int


def recovery(setting: Setting) -> list[Finding]:
    """Run random items under a cap, with and without the CPU to fall back on."""
    rounds, count = (2, 400) if setting.quick else (2, 600)
    arguments = {
        "device": setting.device,
        "cap": stream_memory_cap(setting),
        "count": count,
        "rounds": rounds,
    }
    [figures] = run_at_once([(stream, arguments)], patience=setting.remaining)
    return [finding("random items under a memory cap", figures)]


def two_processes(setting: Setting) -> list[Finding]:
    """Run two streams on one device at the same time, with unequal caps."""
    rounds, count = (1, 400) if setting.quick else (2, 500)
    cap = stream_memory_cap(setting)
    same = {"device": setting.device, "count": count, "rounds": rounds}
    results = run_at_once(
        [(stream, {**same, "cap": cap}), (stream, {**same, "cap": cap // 5, "seed": 7})],
        patience=setting.remaining,
    )
    names = (
        "the larger of two processes on one device",
        "the smaller of two processes on one device",
    )
    return [finding(name, figures) for name, figures in zip(names, results, strict=True)]


def expandable_segments(setting: Setting) -> list[Finding]:
    """Run the same items with expandable segments and without, and report idle memory.

    That is memory that the allocator holds between used blocks.
    """
    rounds, count = (1, 400) if setting.quick else (2, 1000)
    if not (setting.cuda or setting.quick):
        raise MissingRequirement("needs a GPU")
    findings = []
    for state in ("True", "False"):
        arguments = {
            "device": setting.device,
            "cap": stream_memory_cap(setting),
            "count": count,
            "rounds": rounds,
            "fitting": True,
        }
        value = f"expandable_segments:{state}"
        environment = {"PYTORCH_ALLOC_CONF": value, "PYTORCH_CUDA_ALLOC_CONF": value}
        [figures] = run_at_once([(stream, arguments)], environment, setting.remaining)
        name = f"segments {'expandable' if state == 'True' else 'of fixed size'}"
        findings.append(finding(name, figures))
        if setting.cuda:
            is_set = figures["expandable"] is (state == "True")
            value = str(is_set)
            findings.append(Finding(f"{name}: the setting took effect", value, "yes", is_set))
    return findings


def stream_memory_cap(setting: Setting) -> int:
    """Return the bytes that a stream may take: at most a twelfth of the GPU's memory.

    It is 64 MiB on the CPU.

    After each error the cache is emptied, and as many bytes are mapped again, which takes a second
    for some GiB.
    """
    if not setting.cuda:
        return 64 * _MIB
    import torch

    total = int(torch.cuda.get_device_properties(setting.device).total_memory)
    return min(512 * _MIB if setting.quick else 1 << 30, total // 12)


def stream(
    device: str, cap: int, count: int, rounds: int, seed: int = 0, *, fitting: bool = False
) -> dict[str, Any]:
    """Run items in this process, and return how many got a result. ``fitting``: all fit alone."""
    from wdsflow.memory.batching.device import open_device
    from wdsflow.memory.batching.runner import BatchRunner

    cuda = device.startswith("cuda")
    opened = open_device(device, f"{cap}B" if cuda else None)
    run = _allocating(device) if cuda else _pretending(cap)
    wrong = 0
    seconds = 0.0
    idle = 0
    tallies: dict[str, int] = {"items": 0, "batches": 0, "out_of_memory": 0, "failed": 0}
    for number_of_round in range(rounds):
        rng = random.Random(f"{seed} {number_of_round}")
        items = [Item(number, int(cap * _share(rng, fitting=fitting))) for number in range(count)]
        runner: BatchRunner[Item, int] = BatchRunner(
            run, cost=lambda item: item.size, device=opened
        )
        start = time.perf_counter()
        outcomes = runner.map(items)
        seconds += time.perf_counter() - start
        wrong += len(outcomes) != len(items)
        for item, outcome in zip(items, outcomes, strict=False):
            wrong += not _is_expected(item, outcome, cap)
        idle = max(idle, opened.memory().get("fragmented", 0))
        for name in tallies:
            tallies[name] += getattr(runner.tally, name)
    return {
        **tallies,
        "wrong": wrong,
        "seconds": seconds,
        "idle": idle,
        "cap": cap,
        **_device_figures(device),
    }


def _share(rng: random.Random, *, fitting: bool) -> float:
    """Return the share of the cap that an item takes.

    One item in fifty is too large, unless ``fitting``.
    """
    kind = rng.random()
    if kind < 0.9:
        return rng.uniform(0.001, _SMALL)
    if kind < 0.98 or fitting:
        return rng.uniform(_SMALL, _FITS)
    return rng.uniform(_LARGE, 2)


def _is_expected(item: Item, outcome: Any, cap: int) -> bool:
    from wdsflow.memory.batching.attempt import OUT_OF_MEMORY, Failure

    if item.size > cap:
        return isinstance(outcome, Failure) and outcome.slug == OUT_OF_MEMORY
    return bool(outcome == item.number)


def _allocating(device: str) -> Any:
    import torch

    def run(batch: Sequence[Item]) -> list[int]:
        size = len(batch) * max(item.size for item in batch)
        first_half = torch.empty(size - size // 2, dtype=torch.uint8, device=device)
        second_half = torch.empty(size // 2, dtype=torch.uint8, device=device)
        numbers = torch.tensor([item.number for item in batch], device=device)
        first_half[:8] = 1
        second_half[:8] = 1
        return [int(number) for number in numbers.cpu()]

    return run


def _pretending(cap: int) -> Any:
    import torch

    def run(batch: Sequence[Item]) -> list[int]:
        size = len(batch) * max(item.size for item in batch)
        if size > cap:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size / _MIB:.2f} MiB."
            )
        return [item.number for item in batch]

    return run


def _device_figures(device: str) -> dict[str, Any]:
    if not device.startswith("cuda"):
        return {}
    import torch

    return {
        "peak_reserved": int(torch.cuda.max_memory_reserved(device)),
        "expandable": _expandable(device),
    }


def _expandable(device: str) -> bool | None:
    """Return whether a CUDA device's existing memory segments are expandable.

    None if that is unknown.
    """
    import torch

    # In part without types.
    cuda: Any = torch.cuda
    index = torch.device(device).index or 0
    are_expandable = [
        segment["is_expandable"]
        for segment in cuda.memory_snapshot()
        if segment.get("device") == index and "is_expandable" in segment
    ]
    return any(are_expandable) if are_expandable else None


def finding(name: str, figures: dict[str, Any]) -> Finding:
    """Return the figures of a stream as a finding."""
    value = (
        f"{figures['items']:,} items in {figures['batches']:,} batches, {figures['out_of_memory']:,} out of memory,"
        f" {figures['failed']:,} failed, {figures['wrong']} wrong; {figures['seconds']:.1f} s"
    )
    within = True
    if "peak_reserved" in figures:
        within = figures["peak_reserved"] <= figures["cap"]
        value += (
            f"; peak {figures['peak_reserved'] / _MIB:,.0f} of {figures['cap'] / _MIB:,.0f} MiB"
        )
        value += f", {figures['idle'] / _MIB:,.0f} MiB idle"
    met = not figures["wrong"] and figures["out_of_memory"] > 0 and within
    return Finding(name, value, "0 wrong, some out of memory, within the cap", met, figures)
