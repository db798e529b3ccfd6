"""Pipelines in the manner of public training scripts."""

import random

import torch
import webdataset as wds

IMAGES = "jpg;png;jpeg;webp"
calm = wds.ignore_and_continue


def size_of(image):
    return torch.tensor(image.size)


def text_of(text):
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def map_dict(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).decode("pil", handler=calm)
    dataset = dataset.rename(image=IMAGES, text="txt", handler=calm).map_dict(
        image=size_of, text=text_of, handler=calm
    )
    return dataset.to_tuple("image", "text", handler=calm)


def map_tuple(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=5).decode("pil", handler=calm)
    return dataset.to_tuple(IMAGES, "txt", handler=calm).map_tuple(size_of, text_of, handler=calm)


def sliced(urls):
    return (
        wds.WebDataset(urls, handler=calm, shardshuffle=False)
        .to_tuple(IMAGES, "txt", handler=calm)
        .slice(7)
    )


def shuffled(urls):
    return wds.DataPipeline(
        wds.SimpleShardList(urls),
        wds.detshuffle(),
        wds.split_by_node,
        wds.split_by_worker,
        wds.tarfile_to_samples(handler=calm),
        wds.shuffle(50, initial=10),
        wds.decode("torchrgb8", handler=calm),
        wds.to_tuple(IMAGES, "txt", handler=calm),
    )


def random_drops(urls):
    def some(source):
        for sample in source:
            if random.random() < 0.8:
                yield sample

    return (
        wds.WebDataset(urls, handler=calm, shardshuffle=False)
        .compose(some)
        .to_tuple(IMAGES, "txt", handler=calm)
    )


def sampled(urls):
    return (
        wds.WebDataset(urls, handler=calm, shardshuffle=False)
        .rsample(0.5)
        .to_tuple(IMAGES, handler=calm)
    )


def mixed(urls):
    parts = [
        wds.WebDataset(some, handler=calm, shardshuffle=False)
        for some in (urls[::2], urls[1::2])
        if some
    ]
    return (sample for sample in wds.RandomMix(parts, longest=True) if "txt" in sample)


def loader_with_workers(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).to_tuple(
        IMAGES, "txt", handler=calm
    )
    loader = wds.WebLoader(dataset.batched(4), batch_size=None, num_workers=2)
    return loader.unbatched().shuffle(10).batched(3, collation_fn=list, partial=False)


def torch_loader(urls):
    dataset = wds.WebDataset(urls, handler=calm, shardshuffle=False).to_tuple(
        IMAGES, "txt", handler=calm
    )
    return torch.utils.data.DataLoader(
        dataset, batch_size=3, num_workers=2, collate_fn=list, drop_last=True
    )


BATCHED = {"loader_with_workers", "torch_loader"}
NAMES = "map_dict map_tuple sliced shuffled random_drops sampled mixed loader_with_workers torch_loader".split()
