"""Small shard sets, written to disk and as evidence, and OpenCLIP's own loader over them."""

import io
import os
import tarfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import OK
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.tar.members import Stop

MEMBERS = {"usable": ("jpg", "txt"), "no caption": ("jpg", "json"), "no image": ("txt",)}


class Sample(NamedTuple):
    """One sample to write: its key, and which of MEMBERS it has."""

    key: str
    kind: str = "usable"


@cache
def picture() -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "JPEG")
    return stream.getvalue()


def write(folder: Path, contents: Sequence[Sequence[Sample]], digits: int = 4) -> Evidence:
    """Write shards, and return what a scan of them would find.

    Each caption states the shard and the sample.
    """
    shards = []
    for number, samples in enumerate(contents):
        path = folder / f"{number:0{digits}d}.tar"
        with tarfile.open(path, "w") as tar:
            for place, sample in enumerate(samples):
                texts = {"jpg": picture(), "txt": f"{number} {place}".encode(), "json": b"{}"}
                for suffix in MEMBERS[sample.kind]:
                    member = tarfile.TarInfo(f"{sample.key}.{suffix}")
                    member.size = len(texts[suffix])
                    tar.addfile(member, io.BytesIO(texts[suffix]))
        shards.append(evidence_of(str(path), samples))
    return Evidence("full", shards)


def evidence_of(url: str, samples: Sequence[Sample]) -> ShardEvidence:
    """Return the evidence of one valid shard."""
    collector = RunCollector()
    for sample in samples:
        for suffix in MEMBERS[sample.kind]:
            collector.add(sample.key, Part(suffix, OK), 0)
    members = sum(len(MEMBERS[sample.kind]) for sample in samples)
    return ShardEvidence(
        single_shard(url),
        members=members,
        member_bytes=100 * members,
        samples=len({sample.key for sample in samples}),
        stop=Stop("end"),
        runs=collector.runs(),
    )


def plain(usable: int, others: int = 0, prefix: str = "") -> list[Sample]:
    """Return so many usable samples, and then so many without a caption."""
    kinds = ["usable"] * usable + ["no caption"] * others
    return [Sample(f"{prefix}{place:05d}", kind) for place, kind in enumerate(kinds)]


def loader(arguments: Arguments, epoch: int = 0) -> Any:
    """Return the loader of the real get_wds_dataset.

    Its batches hold (shard, sample) instead of tokens.
    """
    import torch
    from open_clip_train.data import get_wds_dataset

    args = Namespace(
        **{name: getattr(arguments, name) for name in Arguments.__dataclass_fields__},
        distributed=False,
        rank=0,
    )
    return get_wds_dataset(
        args,
        lambda image: torch.zeros(1),
        is_train=True,
        epoch=epoch,
        tokenizer=lambda text: torch.tensor([[int(word) for word in text.split()]]),
    ).dataloader


def stages(dataloader: Any) -> Any:
    """Return the pipeline inside a loader: what every worker runs."""
    return dataloader.pipeline[0].dataset


@contextmanager
def process(rank: int, world_size: int, worker: int, workers: int) -> Iterator[None]:
    """Let webdataset believe that this is one worker of one rank."""
    names = {
        "RANK": rank,
        "WORLD_SIZE": world_size,
        "WORKER": worker,
        "NUM_WORKERS": max(1, workers),
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
