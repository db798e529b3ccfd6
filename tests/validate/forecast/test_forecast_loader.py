"""The forecast against OpenCLIP's own loader."""

import random
from dataclasses import replace

import pytest

from tests.validate.openclip import Sample, evidence_of, loader, plain, process, stages, write
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.versions import OpenClip33, epoch_length
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.forecast.forecast import forecast
from wdsflow.validate.forecast.worker_passes import ShardPasses, worker_orders, worker_passes

pytest.importorskip("webdataset")
pytest.importorskip("open_clip_train.data")

pytestmark = [  # webdataset leaves its shards open
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
    ),
]


def arguments(train_data, **others):
    given = {
        "train_data": train_data,
        "train_num_samples": 1000,
        "dataset_type": "webdataset",
        "workers": 1,
    }
    return Arguments(**(given | others))


def urls_read(loader_, count=4):
    """Run the first stages (list, shuffle, split by node, split by worker) of the real pipeline."""
    pipeline = stages(loader_)
    source = pipeline.invoke(pipeline.pipeline[0])
    for stage in pipeline.pipeline[1:count]:
        source = pipeline.invoke(stage, source)
    return [item["url"] for item in source]


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(16))
def test_each_worker_reads_the_shards_that_are_foreseen(seed):
    rng = random.Random(seed)
    count = rng.choice([1, 2, 7, 40, 499, 500, 501, 1100, 1999, 2000, 2001, 2500, 4100])
    command = arguments(
        f"s/{{0000..{count - 1:04d}}}.tar",
        seed=rng.choice([0, 1, 42, 2**31]),
        workers=rng.randint(0, 4),
        world_size=rng.randint(1, 4),
        batch_size=rng.choice([1, 3, 64]),
        train_num_samples=rng.randint(1, 50_000),
        epochs=1,
    )
    epoch = rng.randint(0, 5)
    found = forecast(
        Evidence("full", [evidence_of("x.tar", plain(1))] * count), OpenClip33(), command
    )
    if count < command.workers * command.world_size:
        assert found.crash.startswith("AssertionError: number of shards must be >= total workers")
        with pytest.raises(AssertionError, match="number of shards must be >= total workers"):
            loader(command)
        return
    real = loader(command, epoch)
    expected = worker_orders(OpenClip33(), count, command, epoch)
    split = max(1, command.workers)
    for number, indices in enumerate(expected):
        with process(number // split, command.world_size, number % split, command.workers):
            assert urls_read(real) == [f"s/{index:04d}.tar" for index in indices]
    length = epoch_length(
        command.train_num_samples, command.batch_size, command.world_size, command.workers
    )
    assert (length.batches, length.samples) == (real.num_batches, real.num_samples)
    assert stages(real).nsamples == length.worker_batches
    assert found.length == length


def hurt_shards(rng, count):
    """Return contents of shards with missing fields and empty shards.

    Keys may continue across the borders of shards.
    """
    contents = []
    for number in range(count):
        prefix = rng.choice(["", f"{number}-"])
        kinds = rng.choices(["usable", "no caption", "no image"], [6, 1, 1], k=rng.randint(0, 9))
        contents.append([Sample(f"{prefix}{place}", kind) for place, kind in enumerate(kinds)])
    return contents


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(8))
def test_each_worker_gets_the_batches_that_are_foreseen(tmp_path, seed):
    rng = random.Random(seed)
    count = rng.randint(2, 14)
    evidence = write(tmp_path, hurt_shards(rng, count))
    command = arguments(
        f"{tmp_path}/{{0000..{count - 1:04d}}}.tar",
        workers=rng.choice([0, 2]),
        world_size=rng.randint(1, 2),
        batch_size=rng.randint(1, 4),
        seed=seed,
    )
    if count < command.workers * command.world_size:
        command = replace(command, workers=0)
    starved = {}
    for epoch in range(3):
        real = stages(loader(command, epoch))
        for each in worker_passes(ShardPasses(OpenClip33(), evidence.shards), command, epoch):
            with process(each.rank, command.world_size, each.worker, command.workers):
                batches = list(real.iterator1())
            assert len(batches) == each.batches
            if not batches:
                starved.setdefault(epoch, []).append((each.rank, each.worker))
    found = forecast(evidence, OpenClip33(), replace(command, epochs=3))
    assert found.exact
    first = min(starved, default=None)
    assert [(each.epoch, each.rank, each.worker) for each in found.stalled] == [
        (first, *place) for place in starved.get(first, [])
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_loader_itself_gives_the_epoch_that_is_foreseen(tmp_path, workers):
    evidence = write(
        tmp_path, [plain(5 + number, others=2, prefix=f"{number}-") for number in range(6)]
    )
    command = arguments(
        f"{tmp_path}/{{0000..0005}}.tar",
        workers=workers,
        batch_size=4,
        train_num_samples=70,
        epochs=2,
    )
    found = forecast(evidence, OpenClip33(), command)
    split = max(1, workers)
    real = loader(command)
    batches = list(real)
    assert len(batches) == real.num_batches == found.length.batches
    assert found.stalled == ()
    passes = list(worker_passes(ShardPasses(OpenClip33(), evidence.shards), command, 0))
    for worker, indices in enumerate(worker_orders(OpenClip33(), 6, command, 0)):
        texts = [
            batch["text"] if isinstance(batch, dict) else batch[1]
            for batch in batches[worker::split]
        ]
        samples = [tuple(row) for text in texts for row in text.tolist()]
        assert {shard for shard, _ in samples} <= set(indices)
        once = samples[: passes[worker].batches * command.batch_size]
        assert len(set(once)) == len(once)  # one pass: no sample comes twice
        assert len(set(samples)) <= passes[worker].usable


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_starved_worker_stops_the_loader_after_the_batches_that_are_foreseen(tmp_path, seed):
    evidence = write(tmp_path, [plain(12, prefix="a"), plain(3, prefix="b")])
    command = arguments(f"{tmp_path}/{{0000..0001}}.tar", workers=2, batch_size=4, seed=seed)
    found = forecast(evidence, OpenClip33(), command)
    assert len(found.stalled) == 1
    assert found.batches_before_stall == (1 if seed else 0)
    torch_loader = loader(command).pipeline[0]
    torch_loader.timeout = 3600
    running = iter(torch_loader)
    try:
        for _ in range(found.batches_before_stall):
            next(running)
        running._timeout = 2
        with pytest.raises(RuntimeError, match="timed out after 2 seconds"):
            next(running)
    finally:
        for worker in running._workers:
            worker.kill()  # it would spin forever
