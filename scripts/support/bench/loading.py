"""A training loader, ours or OpenCLIP's, without a model.

`python -m support.bench.loading JSON` prints one JSON line.

Nothing but the loader works: each batch is thrown away as soon as it is there. Both loaders get the
same arguments, transform and tokenizer, and make float32 batches of 224 x 224 pixels.
"""

import contextlib
import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from support.bench import grafting

SIDE, CONTEXT = 224, 77
# A folder with the sources of OpenCLIP's main branch, as for scripts/conformance.
HEAD = "WDSFLOW_OPEN_CLIP_HEAD"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a loader is to do."""

    measure: Literal["rate", "first", "peak"]
    train: bool = True
    # OpenCLIP's has no choice.
    decode: Literal["fast", "exact"] = "fast"
    batch: int = 256
    # 0: as many as are best for OpenCLIP's on this machine.
    workers: int = 0
    # "rate": the least.
    seconds: float = 8.0
    # That the shards are listed.
    times: int = 1


def loader(name: str, plan: Plan, urls: list[str], samples: int) -> Callable[[], Any]:
    """Import everything, and return the function that makes the loader.

    "open_clip-main" is OpenCLIP's main branch.
    """
    if name == "open_clip-main":
        sys.path.insert(0, os.environ[HEAD])
    import open_clip
    import torch
    from open_clip_train import data
    from open_clip_train.params import parse_args

    args = parse_args([])
    args.train_data = args.val_data = "::".join(urls)
    # None: all of them, for an evaluation.
    args.train_num_samples = samples or None
    args.dataset_type = "webdataset"
    args.workers = plan.workers
    args.batch_size = plan.batch
    args.world_size = 1
    args.rank = 0
    transform = open_clip.image_transform(SIDE, is_train=plan.train)
    settings = {"is_train": plan.train, "tokenizer": open_clip.get_tokenizer("ViT-B-32")}
    torch.manual_seed(0)
    if plan.measure == "rate":
        # The stride of both from the beginning: until the shuffle buffer is full two samples are
        # read for each given.
        data._SAMPLE_SHUFFLE_SIZE = data._SAMPLE_SHUFFLE_INITIAL  # noqa: SLF001
        os.environ["OPENCLIP_WDS_SAMPLE_SHUFFLE_SIZE"] = str(data._SAMPLE_SHUFFLE_INITIAL)  # noqa: SLF001
    if name in {"open_clip", "open_clip-main"}:
        return functools.partial(data.get_wds_dataset, args, transform, **settings)
    from wdsflow.training.feed_options import FeedOptions
    from wdsflow.training.openclip import get_wds_dataset

    more: dict[str, Any] = {}
    if name == "wdsflow-subset":
        args.train_num_samples //= 2
        more = half_subset(sorted(set(urls)))
    elif name == "wdsflow-joined":
        more = joined_captions(sorted(set(urls)))
    options = FeedOptions(decode=plan.decode, status_every=0.0, **more)
    return functools.partial(get_wds_dataset, args, transform, **settings, options=options)


def half_subset(urls: list[str]) -> dict[str, str]:
    """Score shards, and return a ledger and a predicate that keep nearly half of the samples.

    The kept samples are spread over all shards.
    """
    import statistics
    from pathlib import Path

    from wdsflow.expressions.score_call import ScoreCall
    from wdsflow.filtering import Recipe, RunOptions, measure_shards
    from wdsflow.filtering.ledger.read_ledger import read_ledger

    folder = Path(urls[0]).parent.with_suffix(".scores")
    measure_shards(urls, folder, Recipe(scores=("caption_length",)), RunOptions(jobs=0))
    lengths: list[Any] = []
    for path in sorted((folder / ".wdsflow" / "ledger").glob("*.parquet")):
        samples, _ = read_ledger(path)
        lengths += samples.columns[ScoreCall("caption_length")].values()
    least = statistics.median(lengths)
    return {"ledger": str(folder), "where": f"caption_length >= {least}"}


def joined_captions(urls: list[str]) -> dict[str, Any]:
    """Return the options that join a table with a caption for each sample."""
    from pathlib import Path

    folder = Path(urls[0]).parent.with_suffix(".join")
    folder.mkdir(exist_ok=True)
    table = grafting.caption_table(urls, str(folder))
    cache = str(folder / "index")
    return {"join": table, "join_set": ("txt=caption",), "join_cache": cache}


def rate(make: Callable[[], Any], plan: Plan) -> dict[str, float]:
    """Samples a second of a stretch within an epoch.

    A round is one batch of each worker: OpenCLIP's work side by side, and their batches come in
    bursts. The stretch begins after the first rounds and has whole ones. Nothing waits when it
    begins or ends: whoever takes batches and does nothing else has always taken all of them.
    "handed_per_s": by the processor time of this process alone.
    """
    batches = iter(make().dataloader)
    workers = max(1, plan.workers)
    check(next(batches), plan)
    skip(batches, 2 * workers - 1 if plan.batch < 256 else workers - 1)
    start = time.perf_counter()
    cpu_before = cpu_seconds()
    own_cpu_before = time.process_time()
    rounds = 0
    while not rounds or time.perf_counter() - start < plan.seconds:
        skip(batches, workers)
        rounds += 1
    seconds = time.perf_counter() - start
    own_cpu = time.process_time() - own_cpu_before
    cpu = cpu_seconds() - cpu_before
    samples = rounds * workers * plan.batch
    return {
        "seconds": seconds,
        "cpu_ms_per_sample": cpu * 1000 / samples,
        "samples_per_s": samples / seconds,
        "handed_per_s": samples / own_cpu,
    }


def first(make: Callable[[], Any], plan: Plan) -> dict[str, float]:
    """Seconds from the call to the first batch."""
    start = time.perf_counter()
    batch = next(iter(make().dataloader))
    seconds = time.perf_counter() - start
    check(batch, plan)
    return {"seconds": seconds}


def epoch(make: Callable[[], Any], plan: Plan) -> dict[str, float]:
    """One epoch from its beginning to its end; who started this process looks at the memory."""
    start = time.perf_counter()
    samples = 0
    for batch in make().dataloader:
        if plan.train:
            check(batch, plan)
        samples += len(batch[0])
        # The next batch must not find this one in memory.
        del batch
    return {"seconds": time.perf_counter() - start, "seen": samples}


def cpu_seconds() -> float:
    """Return what this process and its workers have used so far."""
    process = psutil.Process()
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        user, system = member.cpu_times()[:2]
        total += user + system
    return total


def skip(batches: Iterator[Any], count: int) -> None:
    """Take batches and throw them away."""
    for _ in range(count):
        next(batches)


def check(batch: Any, plan: Plan) -> None:
    """Nothing is fast by doing less."""
    import torch

    # The main branch names them.
    images, texts = (batch["image"], batch["text"]) if isinstance(batch, dict) else batch
    layout = images.shape, images.dtype, texts.shape
    if layout != ((plan.batch, 3, SIDE, SIDE), torch.float32, (plan.batch, CONTEXT)):
        raise SystemExit(f"a batch is {layout}")


MEASURES: dict[str, Callable[[Callable[[], Any], Plan], dict[str, float]]] = {
    "rate": rate,
    "first": first,
    "peak": epoch,
}


def kill_workers_and_exit() -> None:
    """Kill all workers, and exit immediately.

    Workers in the middle of a batch would run for seconds, and disturb the next measurement.
    """
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=10)
    sys.stdout.flush()
    os._exit(0)


def main(request: dict[str, Any]) -> None:
    """Do what a plan says with one of the loaders."""
    plan = Plan(**request["plan"])
    paths = request["paths"] * plan.times
    samples = request["samples"] * plan.times
    make = loader(request["loader"], plan, paths, samples)
    figures = MEASURES[plan.measure](make, plan)
    # Half of the samples are of use; dropping the others costs nothing here.
    if request["loader"] == "wdsflow-dropped":
        figures["samples_per_s"] /= 2
    print(json.dumps(figures))
    kill_workers_and_exit()


def command(name: str, plan: Plan, paths: list[str], samples: int) -> list[str]:
    """Return what runs this in a process of its own; ``samples`` are those of the paths."""
    request = {"loader": name, "plan": dataclasses.asdict(plan), "paths": paths, "samples": samples}
    return [sys.executable, "-m", "support.bench.loading", json.dumps(request)]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
