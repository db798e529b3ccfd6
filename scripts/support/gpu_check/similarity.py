"""clip_similarity from end to end: how near it comes to bare forward passes, and whether it stays under its cap."""

import shutil
import time
from pathlib import Path
from typing import Any

from ..random_clip import write_clip
from ..small_shards import write_small_shards
from .finding import Finding, Setting, needs
from .process import run_at_once

_GOAL = 0.9
_CONTEXT, _VOCABULARY = 77, 49_000


def throughput(setting: Setting) -> list[Finding]:
    """Score samples by a CLIP with random weights, beside forward passes on tensors that are on the device."""
    model, shards = _material(setting)
    samples = len(shards) * _per_shard(setting)
    seconds = 1.0 if setting.quick else setting.seconds
    findings = []
    for precision in ("fp32", "bf16") if setting.cuda else ("fp32",):
        arguments = {"device": setting.device, "model": model, "precision": precision, "seconds": min(seconds, 10.0)}
        [peer] = run_at_once([(bare, arguments)])
        times = max(1, round(peer["rate"] * seconds / samples))
        ours = score(shards * times, Path(setting.folder, "scored"), model, precision, device=setting.device)
        share = ours["rate"] / peer["rate"]
        told = (
            f"{share:.0%} ({ours['rate']:,.0f} of {peer['rate']:,.0f} samples/s, bare in batches of {peer['batch']};"
            f" {ours['samples']:,} samples, {ours['start']:.1f} s until models were loaded)"
        )
        name = f"clip_similarity, {precision}, share of bare forward passes"
        met = None if setting.quick else share >= _GOAL
        findings.append(Finding(name, told, f"at least {_GOAL:.0%}", met, {"ours": ours, "bare": peer}))
    return findings


def cap(setting: Setting) -> list[Finding]:
    """Score under a cap that is little more than the weights."""
    model, shards = _material(setting)
    memory = "1GiB" if setting.cuda else None
    arguments = {"device": setting.device, "model": model, "shards": shards, "memory": memory, "folder": setting.folder}
    [found] = run_at_once([(capped, arguments)])
    complete = found["samples"] == len(shards) * _per_shard(setting) and not found["without"]
    told = f"{found['samples']:,} samples, {found['without']} without a value"
    if "peak" in found:
        told += f"; peak {found['peak'] / 2**20:,.0f} MiB"
    met = complete and found.get("peak", 0) <= 1 << 30
    name = f"clip_similarity, --gpu-memory {memory}" if memory else "clip_similarity in one process"
    return [Finding(name, told, "all values, within the cap", met, found)]


def bare(device: str, model: str, precision: str, seconds: float) -> dict[str, Any]:
    """Return samples a second of both towers on tensors that are there, at the best of some batch sizes."""
    import torch

    from wdsflow.stages.scores.model.clip_model import load_clip

    clip: Any = load_clip(model, "", precision, device)  # type: ignore[arg-type]
    sizes = (64, 128, 256, 512) if device.startswith("cuda") else (16, 32, 64)
    rates = {}
    for size in sizes:
        pictures = torch.randn(size, 3, 224, 224, device=device, dtype=clip.dtype or torch.float32)
        captions = torch.randint(1, _VOCABULARY, (size, _CONTEXT), device=device)

        def forward(pictures: Any = pictures, captions: Any = captions) -> None:
            images, texts = clip.model.encode_image(pictures), clip.model.encode_text(captions)
            float((images * texts).sum())  # waits for the device

        with torch.inference_mode():
            forward()
            done, begun = 0, time.perf_counter()
            while not done or time.perf_counter() - begun < seconds / len(sizes):
                forward()
                done += size
            rates[size] = done / (time.perf_counter() - begun)
    best = max(rates, key=lambda size: rates[size])
    return {"rate": rates[best], "batch": best, "rates": rates}


def score(shards: list[str], folder: Path, model: str, precision: str = "fp32", **options: Any) -> dict[str, Any]:
    """Run ``wdsflow score``'s work; the rate counts from when models are loaded to the last ledger."""
    from wdsflow.filtering.recipe.recipe import Recipe
    from wdsflow.filtering.run_filter import score_shards
    from wdsflow.filtering.run_options import RunOptions

    shutil.rmtree(folder, ignore_errors=True)
    loaded: list[float] = []

    def begin(_: int, __: str) -> None:
        loaded.append(time.perf_counter())

    recipe = Recipe(scores=(f'clip_similarity(model="{model}", pretrained="", precision="{precision}")',))
    begun = time.perf_counter()
    report = score_shards(shards, folder, recipe, RunOptions(begin=begin, **options))
    ended = time.perf_counter()
    if report.failures:
        raise RuntimeError(f"a shard failed: {report.failures[0]}")
    samples = report.total("samples")
    return {
        "samples": samples,
        "seconds": ended - loaded[0],
        "start": loaded[0] - begun,
        "rate": samples / (ended - loaded[0]),
        "without": sum(sum(record.failed.values()) for record in report.records),
    }


def capped(device: str, model: str, shards: list[str], memory: str | None, folder: str) -> dict[str, Any]:
    """Score in this process, whose peak PyTorch knows."""
    found = score(shards, Path(folder, "capped"), model, device=device, gpu_memory=memory, workers=0)
    if device.startswith("cuda"):
        import torch

        found["peak"] = int(torch.cuda.max_memory_reserved(device))
    return found


def _material(setting: Setting) -> tuple[str, list[str]]:
    needs("open_clip", "PIL", "simplejpeg", "pyarrow")
    folder = Path(setting.folder)
    whole = setting.cuda and not setting.quick
    layers = None if whole else {"layers": 1}
    model = write_clip(folder / ("ViT-B-32" if whole else "one-layer"), vision=layers, text=layers)
    shards = write_small_shards(folder / "shards", 2 if setting.quick else 32, _per_shard(setting))
    return model, shards


def _per_shard(setting: Setting) -> int:
    return 24 if setting.quick else 500
