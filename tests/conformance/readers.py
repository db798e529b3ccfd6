"""Runs real readers over shard sets, in the readers' environment, without wdsflow.

    python readers.py < jobs > results

Each line in is a job, ``{"reader": ..., "urls": [...], "options": {...}}``; each line out is what
came of it: ``keys`` of the samples that came out, worker by worker; ``error``, the exception that
ended it; ``stall``, true where a worker would go on endlessly without a batch. A reader is a name
of READERS below. A job for open-clip or webdataset may have ``code`` that makes ``stages``, which
are put in front of the stage that decodes.
"""

import json
import logging
import math
import os
import sys
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

Job = dict[str, Any]
Result = dict[str, Any]
Reader = Callable[[Job], Result]


class PassEnded(BaseException):
    """One pass over the shards is complete; no handler of a reader catches it."""


def open_clip() -> Reader:
    """Prepare the installed open_clip_train, whichever version it is."""
    import open_clip
    import webdataset
    from open_clip_train.data import get_wds_dataset

    preprocess = open_clip.image_transform(16, is_train=True)
    tokenizer = open_clip.get_tokenizer("ViT-B-32")

    def read(job: Job) -> Result:
        options = job["options"]
        result: Result = {"keys": [], "error": None, "stall": False}
        ranks, workers = options["world_size"], max(1, options["workers"])
        for rank in range(ranks):
            for worker in range(workers):
                place = {
                    "RANK": rank,
                    "WORLD_SIZE": ranks,
                    "WORKER": worker,
                    "NUM_WORKERS": workers,
                }
                try:
                    with patch.dict(
                        os.environ, {name: str(value) for name, value in place.items()}
                    ):
                        keys = one_worker(job)
                except Exception as error:
                    result["error"] = describe(error)
                    return result
                result["keys"].append(keys)
                result["stall"] = result["stall"] or not keys
        return result

    def one_worker(job: Job) -> list[list[str]]:
        args = Namespace(
            train_data="::".join(job["urls"]),
            train_num_samples=1_000_000,
            train_data_upsampling_factors=None,
            dataset_resampled=False,
            batch_size=1,
            **{**job["options"], "workers": 0},
        )
        data = get_wds_dataset(
            args, preprocess, is_train=True, epoch=args.epoch, tokenizer=tokenizer
        )
        # The workers are played one after the other in this
        # process; all else is OpenCLIP's own loader.
        loader = data.dataloader.pipeline[0]
        watch = Watch()
        stages = loader.dataset.pipeline
        shuffle = [getattr(stage, "f", None) for stage in stages].index(webdataset.shuffle.f)
        stages.insert(len(stages) - 1, watch.note_survivor)
        stages[shuffle + 1 : shuffle + 1] = [*own_stages(job), watch.note_sample]
        stages.insert(1, watch.note_pass)
        try:
            for _ in loader:
                pass
        except PassEnded:
            return watch.survivors
        raise AssertionError("the loader ended, though it repeats its shards")

    return read


def own_stages(job: Job) -> list[Any]:
    """Return the stages that a job's code makes."""
    names: dict[str, Any] = {}
    exec(job.get("code", "stages = []"), names)
    return list(names["stages"])


class Watch:
    """Three stages that let everything through, and end the endless repetition."""

    def __init__(self) -> None:
        self.passes = 0
        self.now: list[str] = []
        self.survivors: list[list[str]] = []

    def note_pass(self, source: Iterator[Any]) -> Iterator[Any]:
        """End after one pass if samples came out, otherwise after three.

        Without samples, reading would never end by itself.
        """
        self.passes += 1
        if self.passes > (1 if self.survivors else 3):
            raise PassEnded
        yield from source

    def note_sample(self, source: Iterator[Any]) -> Iterator[Any]:
        """Remember the sample that goes through the stages behind; they take one at a time."""
        for sample in source:
            self.now = name(sample)
            yield sample

    def note_survivor(self, source: Iterator[Any]) -> Iterator[Any]:
        """Write down the sample that went in last."""
        for sample in source:
            self.survivors.append(self.now)
            yield sample


def name(sample: dict[str, Any]) -> list[str]:
    """Return a sample's key, and the shard that it began in."""
    return [text(sample.get("__key__")), text(sample.get("__url__"))]


def text(value: object) -> str:
    """Return a key as a string that json can hold."""
    return ascii(value)


def timm() -> Reader:
    """Prepare timm's reader for training, as its create_dataset makes it."""
    import webdataset
    from timm.data.dataset_factory import create_dataset

    def one_worker(job: Job, rank: int, worker: int) -> list[list[str]]:
        options = job["options"]
        split = "::".join(job["urls"]) + "|1000000"
        reader = create_dataset("wds/", root="/", split=split, is_training=True).reader
        # The workers are played one after the other in this process; all else is timm's own.
        reader.dist_rank, reader.dist_num_replicas, reader.worker_id = (
            rank,
            options["world_size"],
            worker,
        )
        reader.set_loader_cfg(num_workers=options["workers"])
        reader.set_epoch(options["epoch"])
        reader._lazy_init()
        watch = Watch()
        stages = reader.ds.pipeline
        shuffle = [getattr(stage, "f", None) for stage in stages].index(webdataset.shuffle.f)
        stages.append(watch.note_survivor)
        stages.insert(shuffle + 1, watch.note_sample)
        stages.insert(1, watch.note_pass)
        try:
            for _image, _label in reader:
                pass
        except PassEnded:
            return watch.survivors
        raise AssertionError("the reader ended, though it repeats its shards")

    def read(job: Job) -> Result:
        options = job["options"]
        result: Result = {"keys": [], "error": None, "stall": False}
        for rank in range(options["world_size"]):
            for worker in range(max(1, options["workers"])):
                try:
                    keys = one_worker(job, rank, worker)
                except Exception as error:
                    return {**result, "error": describe(error)}
                result["keys"].append(keys)
                result["stall"] = result["stall"] or not keys
        return result

    return read


def webdataset_fluid() -> Reader:
    """Prepare webdataset, whichever version it is, with the pipeline of its introduction."""
    import webdataset

    old = webdataset.__version__.startswith("0.2.")

    def read(job: Job) -> Result:
        keys: list[list[str]] = []
        error = None
        try:
            dataset = webdataset.WebDataset(job["urls"], shardshuffle=None if old else False)
            dataset = dataset.compose(*own_stages(job)).decode("pil")
            watch = Watch()
            dataset.append(watch.note_sample)
            dataset = dataset.to_tuple("jpg;png;jpeg;webp", "txt")
            dataset.append(watch.note_survivor)
            keys = watch.survivors
            for _image, _caption in dataset:
                pass
        except Exception as caught:
            error = describe(caught)
        return {"keys": [keys], "error": error, "stall": False}

    return read


def hugging_face() -> Reader:
    """Prepare datasets, streaming."""
    import datasets

    datasets.disable_progress_bars()

    def read(job: Job) -> Result:
        keys: list[list[str]] = []
        error = None
        try:
            dataset = datasets.load_dataset(
                "webdataset", data_files=job["urls"], split="train", streaming=True
            )
            keys.extend(name(row) for row in dataset if has_both(row))
        except Exception as caught:
            error = describe(caught)
        return {"keys": [keys], "error": error, "stall": False}

    return read


def hugging_face_tables() -> Reader:
    """Prepare datasets, which writes tables of all shards first."""
    import datasets

    datasets.disable_progress_bars()

    def read(job: Job) -> Result:
        keys: list[list[str]] = []
        error = None
        with tempfile.TemporaryDirectory(dir=".") as cache:
            try:
                dataset = datasets.load_dataset(
                    "webdataset", data_files=job["urls"], split="train", cache_dir=cache
                )
                keys.extend(name(row) for row in dataset if has_both(row))
            except Exception as caught:
                error = describe(caught)
        return {"keys": [keys], "error": error, "stall": False}

    return read


def has_both(row: dict[str, Any]) -> bool:
    """Return whether a row has an image and a caption.

    A column that the sample lacks holds None or NaN.
    """
    images = [row.get(field) for field in ("jpg", "png", "jpeg", "webp")]
    return any(present(image) for image in images) and present(row.get("txt"))


def present(value: object) -> bool:
    """Return whether a cell holds something."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def ray_data() -> Reader:
    """Prepare Ray Data on this machine alone.

    It is given enough cores to read each shard by itself.
    """
    import ray

    ray.init(
        num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL
    )
    ray.data.DataContext.get_current().enable_progress_bars = False

    def read(job: Job) -> Result:
        keys: list[list[str]] = []
        error = None
        try:
            dataset = ray.data.read_webdataset(job["urls"])
            keys.extend(name(row) for row in dataset.iter_rows() if has_both(row))
        except Exception as caught:
            error = describe(caught)
            keys = []
        return {"keys": [keys], "error": error, "stall": False}

    return read


def energon_crude() -> Reader:
    """Prepare Megatron-Energon for crude samples.

    Its cooker needs an image and a caption.
    """
    from megatron.energon import (
        CaptioningSample,
        Cooker,
        DefaultTaskEncoder,
        basic_sample_keys,
        stateless,
    )

    @stateless
    def cook(sample: Any) -> Any:
        image = sample[
            next((name for name in ("jpg", "png", "jpeg", "webp") if name in sample), "jpg")
        ]
        return CaptioningSample(**basic_sample_keys(sample), image=image, caption=sample["txt"])

    class Cooking(DefaultTaskEncoder):  # type: ignore[misc]
        cookers = (Cooker(cook),)

    return energon(lambda: {"task_encoder": Cooking()})


def energon(more: Callable[[], dict[str, Any]] = dict) -> Reader:
    """Prepare Megatron-Energon for training and validation, over a folder with an index.

    ``more`` returns further options.
    """
    from megatron.energon import (
        WorkerConfig,
        get_savable_loader,
        get_train_dataset,
        get_val_dataset,
    )

    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    common: dict[str, Any] = {"split_part": "train", "worker_config": config, "batch_size": 1}

    def training(folder: str, **options: Any) -> Any:
        data = get_train_dataset(
            folder,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            **common,
            **more(),
            **options,
        )
        return get_savable_loader(data)

    def names(loader: Any) -> list[list[str]]:
        batches = ((batch.__key__[0], batch.__sources__[0][0].shard_name) for batch in loader)
        return [[text(key), text(shard)] for key, shard in batches]

    def read(job: Job) -> Result:
        keys: list[list[str]] = []
        error = None
        folder = os.path.dirname(job["urls"][0])
        try:
            keys = names(training(folder, repeat=False))
            if not keys:
                next(iter(training(folder)))  # which repeats its shards
            held_out = names(get_savable_loader(get_val_dataset(folder, **common, **more())))
            assert sorted(held_out) == sorted(keys), f"validation reads {held_out}"
        except Exception as caught:
            error = describe(caught)
        return {"keys": [keys], "error": error, "stall": False}

    return read


def describe(error: BaseException) -> str:
    """Return an exception in one line, with what caused it."""
    chain: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(chain) < 4:
        chain.append(f"{type(seen).__name__}: {ascii(str(seen))[:300]}")
        seen = seen.__cause__
    return " <- ".join(chain)


READERS: dict[str, Callable[[], Reader]] = {
    "open-clip": open_clip,
    "webdataset": webdataset_fluid,
    "timm": timm,
    "datasets": hugging_face,
    "datasets-tables": hugging_face_tables,
    "ray-data": ray_data,
    "energon": energon,
    "energon-crude": energon_crude,
}


def main() -> None:
    """Answer jobs line by line."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the readers print must not stand among the results
    prepared: dict[str, Reader] = {}
    for line in sys.stdin:
        job = json.loads(line)
        name = job["reader"]
        read = prepared[name] = prepared.get(name) or READERS[name]()
        out.write(json.dumps(read(job)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
