"""clip_similarity from end to end: how near it comes to bare forward passes, and whether it stays under its cap."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..random_clip import write_clip
from ..small_shards import write_small_shards
from . import recovery
from .finding import Finding, Setting, needs
from .process import results_of, run_at_once

_GOAL, _L14_GOAL = 0.9, 2500
_CONTEXT, _VOCABULARY = 77, 49_000
_SHARDS, _SAMPLES = 96, 500  # the first run of a model uses as many as take about the time that a rate is measured


def throughput(setting: Setting) -> Iterator[Finding]:
    """Score samples by CLIPs with random weights, beside forward passes on tensors that are on the device."""
    cases = (
        [("ViT-B-32", "bf16"), ("ViT-L-14", "bf16"), ("ViT-B-32", "fp32")] if setting.cuda else [("ViT-B-32", "fp32")]
    )
    with ThreadPoolExecutor() as pool:
        written = pool.submit(_shards, setting)
        models = dict(pool.map(lambda base: (base, model_of(setting, base)), {base: None for base, _ in cases}))
        shards = written.result()
    yield _decoding_alone(setting)
    seconds = 0.5 if setting.quick else setting.seconds
    arguments = {
        "device": setting.device,
        "cases": [[models[base], precision] for base, precision in cases],
        "seconds": min(seconds, 2.0),
        "sizes": [128, 512] if setting.cuda else [2, 4],
    }
    peers = list(results_of((bare, arguments), setting.left))
    for (base, precision), peer in zip(cases, peers, strict=True):
        count = max(1, min(len(shards), round(peer["rate"] * seconds / _per_shard(setting))))
        folder = Path(setting.folder, "scored")
        ours = score(shards[:count], folder, models[base], precision, device=setting.device)
        share = (ours["steady"] or ours["rate"]) / peer["rate"]
        told = (
            f"{ours['rate']:,.0f} samples/s from tars to ledgers; {ours['steady']:,.0f} between the first finished shard"
            f" and the last, {share:.0%} of {peer['rate']:,.0f} bare in batches of {peer['batch']} ({peer['image']:,.0f}"
            f" by the image tower alone); {ours['samples']:,} samples, {ours['start']:.1f} s until models were loaded"
        )
        if ours["waits"] is not None:
            told += f"; the device waited {ours['waits']:.0%} of the time"
        met = None if setting.quick or (base, precision) == cases[0] else share >= _GOAL
        goal = f"at least {_GOAL:.0%} of bare" if met is not None else "as fast as decoding"
        if base == "ViT-L-14":
            goal += f"; {_L14_GOAL:,}/s"
        yield Finding(f"clip_similarity, {base}, {precision}", told, goal, met, {"ours": ours, "bare": peer})


def _decoding_alone(setting: Setting) -> Finding:
    """Decode, resize and tokenize in one process per core, without a model."""
    cores = 2 if setting.quick else len(os.sched_getaffinity(0))
    seconds = 0.5 if setting.quick else 3.0
    rates = run_at_once([(decoding, {"seconds": seconds})] * cores, patience=setting.left)
    told = f"{sum(rates):,.0f} samples/s by {cores} processes"
    return Finding("decoding, resizing and tokenizing alone", told, details={"rate": sum(rates), "processes": cores})


def decoding(seconds: float) -> float:
    """Return how many samples this process prepares for a CLIP a second."""
    from wdsflow.stages.scores.model.clip_tokens import clip_words
    from wdsflow.stages.scores.model.pictures import Geometry, Prepare

    from ..bench.photos import SMALL, photographs

    pictures, prepare = photographs(SMALL, 8, seed=5), Prepare(geometry=Geometry(size=(224, 224), fit="short"))
    words = clip_words()
    assert words is not None
    prepare(pictures[0], 1 << 29)
    words.tokens("the first imports a library", _CONTEXT)
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        prepare(pictures[done % len(pictures)], 1 << 29)
        words.tokens(f"a stone bridge over the river in the rain, number {done}", _CONTEXT)
        done += 1
    return done / (time.perf_counter() - begun)


def cap(setting: Setting) -> Iterator[Finding]:
    """Score under a cap that is little more than the weights, beside a process that takes memory of the same device."""
    model, shards = model_of(setting, "ViT-B-32"), _shards(setting)[:4]
    memory = "1GiB" if setting.cuda else None
    arguments = {"device": setting.device, "model": model, "shards": shards, "memory": memory, "folder": setting.folder}
    beside = {"device": setting.device, "cap": recovery.cap_of(setting), "count": 300, "rounds": 2, "seed": 3}
    found, other = run_at_once([(capped, arguments), (recovery.stream, beside)], patience=setting.left)
    complete = found["samples"] == len(shards) * _per_shard(setting) and not found["without"]
    told = f"{found['samples']:,} samples, {found['without']} without a value"
    if "peak" in found:
        told += f"; peak {found['peak'] / 2**20:,.0f} MiB"
    met = complete and found.get("peak", 0) <= 1 << 30
    name = f"clip_similarity, --gpu-memory {memory}" if memory else "clip_similarity in one process"
    yield Finding(f"{name}, beside another", told, "all values, within the cap", met, found)
    yield recovery.finding("random items in the other process", other)


def bare(device: str, cases: list[tuple[str, str]], seconds: float, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield, for each model and precision, samples a second on tensors that are there, at the best of some batch sizes."""
    from wdsflow.stages.scores.model.clip_model import load_clip

    for model, precision in cases:
        yield _bare(load_clip(model, "", precision, device), device, seconds, sizes)  # type: ignore[arg-type]


def _bare(clip: Any, device: str, seconds: float, sizes: Sequence[int]) -> dict[str, Any]:
    import torch

    from wdsflow.memory.batching.device import current_device

    rates, alone = {}, {}
    for size in sizes:
        pictures = torch.randn(size, 3, 224, 224, device=device, dtype=clip.dtype or torch.float32)
        captions = torch.randint(1, _VOCABULARY, (size, _CONTEXT), device=device)

        def image(pictures: Any = pictures) -> Any:
            return clip.model.encode_image(pictures)

        def both(pictures: Any = pictures, captions: Any = captions) -> Any:
            return clip.model.encode_image(pictures) * clip.model.encode_text(captions)

        with torch.inference_mode(), current_device(device):
            alone[size] = rate(image, size, seconds / len(sizes) / 3)
            rates[size] = rate(both, size, seconds / len(sizes))
    best = max(rates, key=lambda size: rates[size])
    return {"rate": rates[best], "batch": best, "rates": rates, "image": max(alone.values())}


def rate(forward: Any, size: int, seconds: float) -> float:
    """Return items a second of a function that computes ``size`` of them on a device."""
    forward()
    done, begun = 0, time.perf_counter()
    while not done or time.perf_counter() - begun < seconds:
        float(forward().sum())  # waits for the device
        done += size
    return done / (time.perf_counter() - begun)


def score(shards: list[str], folder: Path, model: str, precision: str = "fp32", **options: Any) -> dict[str, Any]:
    """Run ``wdsflow score``'s work; the rate counts from when models are loaded to the last ledger.

    "steady" is the rate between the first finished shard and the last; "waits" the share of time without a kernel.
    """
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_filter import score_shards
    from wdsflow.filtering.run_options import RunOptions

    shutil.rmtree(folder, ignore_errors=True)
    ends: list[float] = []
    busy = _Busy(options["device"])

    def begin(_: int, __: str) -> Any:
        ends.append(time.perf_counter())
        busy.start()
        return lambda _: ends.append(time.perf_counter())

    recipe = Recipe(scores=(f'clip_similarity(model="{model}", pretrained="", precision="{precision}")',))
    begun = time.perf_counter()
    report = score_shards(shards, folder, recipe, RunOptions(begin=begin, **options))
    ended = time.perf_counter()
    if report.failures:
        raise RuntimeError(f"a shard failed: {report.failures[0]}")
    samples, loaded, firsts = report.total("samples"), ends[0], ends[1:]
    between = (len(firsts) - 1) / len(firsts) * samples / max(firsts[-1] - firsts[0], 1e-9) if len(firsts) > 1 else 0.0
    return {
        "samples": samples,
        "seconds": ended - loaded,
        "start": loaded - begun,
        "rate": samples / (ended - loaded),
        "steady": between,
        "waits": busy.idle(),
        "without": sum(sum(record.failed.values()) for record in report.records),
    }


class _Busy:
    """Asks nvidia-smi ten times a second for the share of time in which the device ran a kernel."""

    def __init__(self, device: str) -> None:
        self._process: subprocess.Popen[str] | None = None
        fields = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        self._command = ["nvidia-smi", "-i", device.partition(":")[2], *fields, "-lms", "100"]
        self._asks = device.startswith("cuda")

    def start(self) -> None:
        if self._asks:
            try:
                self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
            except OSError:
                self._process = None

    def idle(self) -> float | None:
        """Return the share of time without a kernel; None if it is not known."""
        if self._process is None:
            return None
        self._process.terminate()
        lines = self._process.communicate()[0].splitlines()
        shares = [int(line) for line in lines if line.strip().isdigit()]
        return 1 - sum(shares) / len(shares) / 100 if shares else None


def capped(device: str, model: str, shards: list[str], memory: str | None, folder: str) -> dict[str, Any]:
    """Score in this process, whose peak PyTorch knows."""
    found = score(shards, Path(folder, "capped"), model, device=device, gpu_memory=memory, workers=0)
    if device.startswith("cuda"):
        import torch

        found["peak"] = int(torch.cuda.max_memory_reserved(device))
    return found


def model_of(setting: Setting, base: str) -> str:
    needs("open_clip", "PIL", "simplejpeg", "pyarrow")
    whole = setting.cuda and not setting.quick
    layers = None if whole else {"layers": 1}
    folder = Path(setting.folder, base if whole else f"one-layer-{base}")
    return write_clip(folder, base=base, vision=layers, text=layers)


def _shards(setting: Setting) -> list[str]:
    return write_small_shards(Path(setting.folder, "shards"), 2 if setting.quick else _SHARDS, _per_shard(setting))


def _per_shard(setting: Setting) -> int:
    return 24 if setting.quick else _SAMPLES
