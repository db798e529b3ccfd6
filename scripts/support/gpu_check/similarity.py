"""clip_similarity from end to end: its rate, and whether it stays under its memory cap.

The rate is compared with bare forward passes.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from ..random_clip import write_clip
from ..small_shards import random_caption, write_small_shards
from . import recovery
from .finding import Finding, Setting, needs
from .process import Call, results_of, run_at_once

# The least share of the rate of bare passes, and samples a second of ViT-L-14.
_GOAL = 0.9
_L14_GOAL = 2500
_VOCABULARY = 49_000
# Samples of a shard, and different shards. Small shards: many end while all workers are busy. A
# batch has the pictures of one shard, so bare passes take as many.
_SAMPLES = 250
_DIFFERENT = 64
# Remaining seconds that are enough for fp32 as well.
_LONG = 300.0


def throughput(setting: Setting) -> Iterator[Finding]:
    """Measure the rate of scoring by CLIPs with random weights.

    It is compared with forward passes on tensors that are on the device.
    """
    cases = [("ViT-B-32", "bf16"), ("ViT-L-14", "bf16")] if setting.cuda else [("ViT-B-32", "fp32")]
    if setting.cuda and setting.remaining > _LONG:
        cases.append(("ViT-B-32", "fp32"))
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(_shards, setting)
        bases = list(dict.fromkeys(base for base, _ in cases))
        names = pool.map(lambda base: model_of(setting, base), bases)
        models = dict(zip(bases, names, strict=True))
        shards = writing.result()
    arguments = {
        "device": setting.device,
        "cases": [[models[base], precision] for base, precision in cases],
        "seconds": 0.5 if setting.quick else 4.0,
        "sizes": [_per_shard(setting)],
    }
    peers = list(results_of((bare, arguments), setting.remaining))
    decoded = _decoding_alone(setting)
    yield decoded
    for (base, precision), peer in zip(cases, peers, strict=True):
        yield _compared(setting, base, precision, peer, decoded.details, shards)


def _compared(
    setting: Setting,
    base: str,
    precision: str,
    peer: dict[str, Any],
    decoded: dict[str, Any],
    shards: list[str],
) -> Finding:
    """Measure the rate of scoring, and compare it with bare forward passes.

    Scores for about as long as any rate is measured. If decoding is slower than the passes, the
    rate is compared with decoding.
    """
    workers = decoded["processes"]
    size = _per_shard(setting)
    bound = min(peer["rate"], decoded["rate"])
    seconds = 0.5 if setting.quick else setting.seconds
    count = 4 * workers + max(2, round(bound * seconds / size))
    linked = _linked(shards, Path(setting.folder, "linked"), count)
    arguments = {
        "folder": linked,
        "out": str(Path(setting.folder, "scored")),
        "model": model_of(setting, base),
    }
    arguments |= {"precision": precision, "device": setting.device, "jobs": workers}
    (ours,) = run_at_once([(scored, arguments)], patience=setting.remaining)
    steady = ours["steady"]
    value = (
        f"{steady:,.0f} samples/s while all {workers} workers are busy, {steady / peer['rate']:.0%} of {peer['rate']:,.0f}"
        f" bare in batches of {size} ({peer['whole']:,.0f} with captions of 77 tokens, {peer['image']:,.0f} by the image"
        f" tower alone); {ours['rate']:,.0f} from tars to ledgers with start and end of {ours['samples']:,} samples;"
        f" {ours['start']:.1f} s until models were loaded"
    )
    if ours["waits"] is not None:
        value += f"; the device waited {ours['waits']:.0%} of the time"
    goal = f"at least {_GOAL:.0%} of bare, or of decoding alone"
    is_met = steady >= _GOAL * bound
    if base == "ViT-L-14":
        goal = f"at least {_GOAL:.0%} of bare; {_L14_GOAL:,}/s"
        is_met = is_met and steady >= _L14_GOAL
    has_goal = setting.cuda and not setting.quick
    name = f"clip_similarity, {base}, {precision}"
    details = {"ours": ours, "bare": peer}
    return Finding(name, value, goal, is_met if has_goal else None, details)


def _decoding_alone(setting: Setting) -> Finding:
    """Decode, resize and tokenize in one process per core, without a model."""
    # As many as a run has workers.
    cores = 2 if setting.quick else len(os.sched_getaffinity(0))
    seconds = 0.5 if setting.quick else 3.0
    rates = run_at_once([(decoding, {"seconds": seconds})] * cores, patience=setting.remaining)
    value = f"{sum(rates):,.0f} samples/s by {cores} processes"
    return Finding(
        "decoding, resizing and tokenizing alone",
        value,
        details={"rate": sum(rates), "processes": cores},
    )


def decoding(seconds: float) -> float:
    """Return how many samples this process prepares for a CLIP a second."""
    from wdsflow.stages.scores.model.clip.clip_words import clip_words
    from wdsflow.stages.scores.model.pictures.geometry import Geometry
    from wdsflow.stages.scores.model.pictures.prepare import Prepare

    from ..bench.photos import SMALL, photographs

    pictures = photographs(SMALL, 8, seed=5)
    prepare = Prepare(geometry=Geometry(size=(224, 224), fit="short"))
    words = clip_words()
    assert words is not None
    prepare(pictures[0], 1 << 29)
    words.tokens("the first imports a library", 77)
    count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        prepare(pictures[count % len(pictures)], 1 << 29)
        words.tokens(f"a stone bridge over the river in the rain, number {count}", 77)
        count += 1
    return count / (time.perf_counter() - start)


def cap(setting: Setting) -> Iterator[Finding]:
    """Score under a memory cap that is little more than the weights.

    Another process takes memory of the same device meanwhile.
    """
    model = model_of(setting, "ViT-B-32")
    shards = _shards(setting)[:20]
    memory = "1GiB" if setting.cuda else None
    arguments = {
        "device": setting.device,
        "model": model,
        "shards": shards,
        "memory": memory,
        "folder": setting.folder,
    }
    other_arguments = {
        "device": setting.device,
        "cap": recovery.stream_memory_cap(setting),
        "count": 300,
        "rounds": 2,
        "seed": 3,
    }
    calls: list[Call] = [(capped, arguments), (recovery.stream, other_arguments)]
    figures, other = run_at_once(calls, patience=setting.remaining)
    has_all = figures["samples"] == len(shards) * _per_shard(setting)
    value = f"{figures['samples']:,} samples, {figures['without']} without a value"
    if "peak" in figures:
        value += f"; peak {figures['peak'] / 2**20:,.0f} MiB"
    met = has_all and not figures["without"] and figures.get("peak", 0) <= 1 << 30
    name = f"clip_similarity, --gpu-memory {memory}" if memory else "clip_similarity in one process"
    yield Finding(f"{name}, beside another", value, "all values, within the cap", met, figures)
    yield recovery.finding("random items in the other process", other)


def bare(
    device: str, cases: list[tuple[str, str]], seconds: float, sizes: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the rate of bare forward passes for each model and precision.

    The rate is in samples a second, on tensors on the device, at the best of some batch sizes.
    """
    from wdsflow.stages.scores.model.clip.load_clip import load_clip

    for model, precision in cases:
        yield _bare(load_clip(model, "", precision, device), device, seconds, sizes)  # type: ignore[arg-type]


def _bare(clip: Any, device: str, seconds: float, sizes: Sequence[int]) -> dict[str, Any]:
    """Measure the rate of bare forward passes, with captions of two lengths.

    "rate" has captions as they are scored, trimmed and padded together; "whole" has 77 tokens.
    """
    import torch

    from wdsflow.memory.batching.device import current_device

    best: dict[str, Any] = {"rate": 0.0}
    for size in sizes:
        pictures = torch.randn(size, 3, 224, 224, device=device, dtype=clip.dtype or torch.float32)
        length = max(len(tokens) for tokens in _captions(size))
        # As Clip.texts.
        length += -length % 8 if device.startswith("cuda") else 0
        figures: dict[str, Any] = {"batch": size, "tokens": length}
        for name, count in (("rate", length), ("whole", clip.text.context)):
            tokens = torch.randint(1, _VOCABULARY, (size, count), device=device)

            def both(pictures: Any = pictures, tokens: Any = tokens) -> Any:
                return clip.model.encode_image(pictures) * clip.text(tokens)

            with torch.inference_mode(), current_device(device):
                figures[name] = rate(both, size, seconds / len(sizes) / 3)
        with torch.inference_mode(), current_device(device):
            encode_image = partial(clip.model.encode_image, pictures)
            figures["image"] = rate(encode_image, size, seconds / len(sizes) / 3)
        best = max(best, figures, key=lambda rates: float(rates["rate"]))
    return best


def _captions(count: int) -> list[list[int]]:
    """Return the tokens of captions such as those of the shards."""
    from wdsflow.stages.scores.model.clip.clip_words import clip_words

    words = clip_words()
    rng = random.Random(5)
    assert words is not None
    return [words.tokens(random_caption(rng), 77) for _ in range(count)]


def rate(forward: Any, size: int, seconds: float) -> float:
    """Return items a second of a function that computes ``size`` of them on a device."""
    forward()
    items = 0
    start = time.perf_counter()
    while not items or time.perf_counter() - start < seconds:
        # Waits for the device.
        float(forward().sum())
        items += size
    return items / (time.perf_counter() - start)


def score(
    shards: list[str], folder: Path, model: str, precision: str = "fp32", **options: Any
) -> dict[str, Any]:
    """Score as ``wdsflow measure`` does, and return rates.

    The rate is measured from the loading of the models to the last ledger.

    "steady" is the rate while all workers are busy, 0 with too few shards; "waits" the share of
    time without a kernel.
    """
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_filter import measure_shards
    from wdsflow.filtering.run_options import RunOptions

    shutil.rmtree(folder, ignore_errors=True)
    ends: list[float] = []
    sizes: list[int] = []
    utilization = _Utilization(options["device"])

    def begin(_: int, __: str) -> Any:
        ends.append(time.perf_counter())
        utilization.start()
        return end_shard

    def end_shard(record: Any) -> None:
        ends.append(time.perf_counter())
        sizes.append(getattr(record, "samples", 0))

    recipe = Recipe(
        scores=(f'clip_similarity(model="{model}", pretrained="", precision="{precision}")',)
    )
    start = time.perf_counter()
    report = measure_shards(shards, folder, recipe, RunOptions(begin=begin, **options))
    end = time.perf_counter()
    if report.failures:
        raise RuntimeError(f"a shard failed: {report.failures[0]}")
    samples = report.total("samples")
    loaded = ends[0]
    return {
        "samples": samples,
        "seconds": end - loaded,
        "start": loaded - start,
        "rate": samples / (end - loaded),
        "steady": steady_rate(ends[1:], sizes, options.get("jobs") or 0),
        "waits": utilization.idle(),
        "without": sum(sum(record.failed.values()) for record in report.records),
    }


def steady_rate(ends: Sequence[float], sizes: Sequence[int], workers: int) -> float:
    """Return samples a second while all workers are busy; 0 with too few shards.

    It is measured between the ends of two shards.

    These are the 2 * workers-th end and the (n - workers)-th: shards that are begun before an
    interval and end in it are as many as those that are begun in it and end after it.
    """
    first = 2 * workers - 1
    last = len(ends) - workers - 1
    if not workers or last <= first:
        return 0.0
    return sum(sizes[first + 1 : last + 1]) / max(ends[last] - ends[first], 1e-9)


class _Utilization:
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


def scored(
    folder: str, out: str, model: str, precision: str, device: str, jobs: int
) -> dict[str, Any]:
    """Score all shards of a folder, from this process."""
    shards = sorted(str(path) for path in Path(folder).glob("*.tar"))
    return score(shards, Path(out), model, precision, device=device, jobs=jobs)


def capped(
    device: str, model: str, shards: list[str], memory: str | None, folder: str
) -> dict[str, Any]:
    """Score in this process, whose peak PyTorch knows."""
    figures = score(shards, Path(folder, "capped"), model, device=device, gpu_memory=memory, jobs=0)
    if device.startswith("cuda"):
        import torch

        figures["peak"] = int(torch.cuda.max_memory_reserved(device))
    return figures


def model_of(setting: Setting, base: str) -> str:
    """Write a CLIP with random weights; return its name for OpenCLIP."""
    needs("open_clip", "PIL", "simplejpeg")
    has_all_layers = setting.cuda and not setting.quick
    layers = None if has_all_layers else {"layers": 1}
    folder = Path(setting.folder, base if has_all_layers else f"one-layer-{base}")
    return write_clip(folder, base=base, vision=layers, text=layers)


def _shards(setting: Setting) -> list[str]:
    count = 2 if setting.quick else _DIFFERENT
    return write_small_shards(Path(setting.folder, "shards"), count, _per_shard(setting))


def _linked(shards: list[str], folder: Path, count: int) -> str:
    """Name the same shards again and again, until there are ``count``; return the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(count):
        os.link(shards[number % len(shards)], folder / f"{number:05d}.tar")
    return str(folder)


def _per_shard(setting: Setting) -> int:
    return 24 if setting.quick else _SAMPLES
