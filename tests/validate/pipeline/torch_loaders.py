"""Loaders of torch, webdataset, torchdata and datasets, to test --check.

Some are correct, others faulty.
"""

import io
import os
import random
import tarfile
import threading
import time

import numpy as np
import torch
import webdataset as wds
from PIL import Image
from torch.distributed import init_process_group
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    get_worker_info,
)

SIZE = None
CACHE = {}
LOCK = threading.Lock()


def samples_of(urls):
    found = []
    for url in urls:
        with tarfile.open(url) as tar:
            members = {member.name: tar.extractfile(member).read() for member in tar}
        for name, text in members.items():
            if name.endswith(".txt"):
                picture = np.asarray(
                    Image.open(io.BytesIO(members[name[:-4] + ".png"])).convert("RGB")
                )
                found.append((name[:-4], picture, text.decode()))
    return found


def ranks():
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def decode(sample):
    return sample["__key__"], sample["png"], sample["txt"]


# --- webdataset ---


def web(urls, shuffle=False, nodesplitter=wds.split_by_node, **options):
    dataset = wds.WebDataset(urls, shardshuffle=shuffle, nodesplitter=nodesplitter, **options)
    return dataset.decode("torchrgb").map(decode)


def web_right(urls):
    return wds.WebLoader(web(urls).batched(5), batch_size=None, num_workers=2)


def web_full_batches(urls):
    """Leaves out other samples than one process does: the rest of each worker."""
    return wds.WebLoader(web(urls).batched(7, partial=False), batch_size=None, num_workers=2)


def web_no_nodesplitter(urls):
    dataset = wds.WebDataset(urls, shardshuffle=False).decode("torchrgb").map(decode).batched(5)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


def unsplit(urls):
    yield from urls


def web_unsplit_nodes(urls):
    return wds.WebLoader(web(urls, nodesplitter=unsplit).batched(5), batch_size=None, num_workers=2)


def web_unsplit_workers(urls):
    stages = [
        wds.SimpleShardList(urls),
        wds.split_by_node,
        wds.tarfile_to_samples(),
        wds.decode("torchrgb"),
    ]
    dataset = wds.DataPipeline(*stages, wds.map(decode), wds.batched(5))
    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


def web_resampled(urls):
    return wds.WebLoader(
        web(urls, resampled=True).batched(5).with_epoch(10), batch_size=None, num_workers=2
    )


def fixed_seed():
    return 0


def web_resampled_alike(urls):
    stages = [
        wds.ResampledShards(urls, worker_seed=fixed_seed, deterministic=True),
        wds.tarfile_to_samples(),
    ]
    dataset = wds.DataPipeline(
        *stages, wds.decode("torchrgb"), wds.map(decode), wds.batched(5)
    ).with_epoch(10)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


class Brightens:
    """Each worker has a copy of one generator."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __call__(self, sample):
        key, picture, text = sample
        return key, picture * float(self.rng.random()), text


def web_augments_alike(urls):
    return wds.WebLoader(web(urls).map(Brightens()).batched(5), batch_size=None, num_workers=2)


def web_shuffled(urls):
    loader = wds.WebLoader(
        web(urls, shuffle=100).shuffle(20).batched(5), batch_size=None, num_workers=2
    )
    return loader.unbatched().shuffle(20).batched(4)


def web_lambda(urls):
    dataset = web(urls).map(lambda sample: sample)
    return wds.WebLoader(dataset.batched(5), batch_size=None, num_workers=2)


def plain_over_web(urls):
    return DataLoader(web(urls), batch_size=5, num_workers=2)


def web_all_ranks_epoch(urls):
    return wds.WebLoader(web(urls).batched(5).with_epoch(6), batch_size=None, num_workers=2)


def web_unsplit_epoch(urls):
    stages = [
        wds.SimpleShardList(urls),
        wds.shuffle(100),
        wds.tarfile_to_samples(),
        wds.decode("torchrgb"),
    ]
    dataset = wds.DataPipeline(*stages, wds.map(decode), wds.batched(5)).with_epoch(40)
    return wds.WebLoader(dataset, batch_size=None, num_workers=2)


# --- iterable datasets ---


class Stream(IterableDataset[object]):
    """Split over ranks and workers by shards."""

    def __init__(self, urls):
        self.urls = urls

    def mine(self):
        rank, count = ranks()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return self.urls[rank::count][worker::workers]

    def __iter__(self):
        for key, picture, text in samples_of(self.mine()):
            yield self.made(key, picture, text)

    def made(self, key, picture, text):
        return torch.from_numpy(picture.copy()), text


def stream_right(urls):
    return DataLoader(Stream(urls), batch_size=5, num_workers=2)


class Unsplit(Stream):
    def mine(self):
        rank, count = ranks()
        return self.urls[rank::count]


def unsplit_without_workers(urls):
    return DataLoader(Unsplit(urls), batch_size=5)


def stream_unsplit(urls):
    return DataLoader(Unsplit(urls), batch_size=5, num_workers=2)


class ByProcess(Stream):
    """Orders the shards by the process before it splits them."""

    def __iter__(self):
        self.urls = random.Random(os.getpid()).sample(self.urls, len(self.urls))
        return super().__iter__()


def stream_by_process(urls):
    return DataLoader(ByProcess(urls), batch_size=5, num_workers=2)


class SplitByWorkerOnly(Stream):
    def mine(self):
        info = get_worker_info()
        return self.urls[info.id :: info.num_workers] if info else self.urls


def stream_split_by_worker_only(urls):
    return DataLoader(SplitByWorkerOnly(urls), batch_size=5, num_workers=2)


class LosesTheRest(Stream):
    """Leaves out the shards that do not divide evenly."""

    def mine(self):
        rank, count = ranks()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        urls = self.urls[rank::count]
        each = len(urls) // workers
        return urls[worker * each : (worker + 1) * each]


def stream_loses_the_rest(urls):
    return DataLoader(LosesTheRest(urls), batch_size=None, num_workers=2)


class Unequal(Stream):
    def mine(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        rank, count = ranks()
        urls = self.urls if count == 1 else self.urls[:2] if rank == 0 else self.urls[2:]
        return urls[worker::workers]


def stream_unequal(urls):
    return DataLoader(Unequal(urls), batch_size=5, num_workers=2)


class Augments(Stream):
    """Draws from the generators that torch seeds in each worker."""

    def made(self, key, picture, text):
        return torch.from_numpy(picture * np.random.rand()) + random.random() + torch.rand(1), text  # noqa: NPY002


def augments_right(urls):
    return DataLoader(Augments(urls), batch_size=5, num_workers=2)


class AugmentsAlike(Stream):
    """Each worker has a copy of one generator."""

    def __init__(self, urls):
        super().__init__(urls)
        self.rng = np.random.default_rng(0)

    def made(self, key, picture, text):
        return torch.from_numpy(picture * self.rng.random()), text


def augments_alike(urls):
    return DataLoader(AugmentsAlike(urls), batch_size=5, num_workers=2)


def same_seed(worker):
    np.random.seed(0)  # noqa: NPY002


class AugmentsByNumpy(Stream):
    def made(self, key, picture, text):
        return torch.from_numpy(picture * np.random.rand()), text  # noqa: NPY002


def worker_init_alike(urls):
    return DataLoader(AugmentsByNumpy(urls), batch_size=5, num_workers=2, worker_init_fn=same_seed)


class Counts(Stream):
    """A counter in each worker is no random number."""

    def __iter__(self):
        for number, (_, picture, text) in enumerate(samples_of(self.mine())):
            yield picture.copy(), text, number


def counts(urls):
    return DataLoader(Counts(urls), batch_size=5, num_workers=2)


# --- start methods ---


class Opened(Stream):
    def __init__(self, urls):
        super().__init__(urls)
        self.file = open(urls[0], "rb")  # noqa: SIM115


def opened_in_init(urls):
    return DataLoader(Opened(urls), batch_size=5, num_workers=2)


class TarInInit(Stream):
    def __init__(self, urls):
        super().__init__(urls)
        self.tar = tarfile.open(urls[0])  # noqa: SIM115


def tar_in_init(urls):
    return DataLoader(TarInInit(urls), batch_size=5, num_workers=2)


class Locked(Stream):
    def __init__(self, urls):
        super().__init__(urls)
        self.lock = threading.Lock()


def lock_in_init(urls):
    return DataLoader(Locked(urls), batch_size=5, num_workers=2)


class OpensLater(Stream):
    """Leaves its file out of what is pickled."""

    def __init__(self, urls):
        super().__init__(urls)
        self.file = open(urls[0], "rb")  # noqa: SIM115

    def __getstate__(self):
        return {**vars(self), "file": None}


def opens_later(urls):
    return DataLoader(OpensLater(urls), batch_size=5, num_workers=2)


def local_collate(urls):
    def collate(items):
        return [text for _, text in items]

    return DataLoader(Stream(urls), batch_size=5, num_workers=2, collate_fn=collate)


def lambda_without_workers(urls):
    return DataLoader(
        Stream(urls), batch_size=5, collate_fn=lambda items: [text for _, text in items]
    )


class Resized(Stream):
    def made(self, key, picture, text):
        return torch.from_numpy(picture[:SIZE].copy()), text


def sets_a_global(urls):
    global SIZE  # noqa: PLW0603 - the planted fault
    SIZE = 4
    return DataLoader(Resized(urls), batch_size=5, num_workers=2)


class Looks(Stream):
    def made(self, key, picture, text):
        return CACHE["label"], text


def fills_a_global(urls):
    CACHE["label"] = 1
    return DataLoader(Looks(urls), batch_size=5, num_workers=2)


class TakesLock(Stream):
    def made(self, key, picture, text):
        with LOCK:
            return torch.from_numpy(picture.copy()), text


def hold():
    with LOCK:
        threading.Event().wait()


def lock_held_at_fork(urls):
    """A thread holds a lock: a forked worker waits for it forever."""
    threading.Thread(target=hold, daemon=True).start()
    time.sleep(0.2)
    return DataLoader(TakesLock(urls), batch_size=5, num_workers=2)


def own_context(urls):
    return DataLoader(
        Stream(urls),
        batch_size=5,
        num_workers=2,
        collate_fn=lambda items: [text for _, text in items],
        multiprocessing_context="fork",
    )


# --- map-style ---


class Items(Dataset[object]):
    def __init__(self, urls):
        self.items = samples_of(urls)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        _, picture, text = self.items[index]
        return torch.from_numpy(picture.copy()), text


def sampler_of(items, **options):
    rank, count = ranks()
    return DistributedSampler(items, num_replicas=count, rank=rank, **options)


def distributed_drops(urls):
    items = Items(urls)
    return DataLoader(
        items,
        batch_size=5,
        num_workers=2,
        sampler=sampler_of(items, drop_last=True),
        drop_last=True,
    )


def distributed_right(urls):
    items = Items(urls)
    return DataLoader(items, batch_size=7, num_workers=2, sampler=sampler_of(items))


def default_group(urls):
    """Takes its rank from torch.distributed, which a script has initialized."""
    items = Items(urls)
    return DataLoader(items, batch_size=5, sampler=DistributedSampler(items, drop_last=True))


def own_group(urls):
    """Makes the group itself, as some scripts do."""
    init_process_group("gloo")
    return default_group(urls)


def not_distributed(urls):
    return DataLoader(Items(urls), batch_size=5, num_workers=2, shuffle=True)
