"""Pipelines with one habit each, over 40 samples with different pictures.

Their code shows what they do.
"""

import io
import itertools
import random

import numpy
import torch
import webdataset as wds
from PIL import Image
from webdataset.mix import RandomMix

calm = wds.ignore_and_continue


def samples_of(urls):
    return wds.WebDataset(urls, shardshuffle=False)


def number_of(sample):
    return int(sample["__key__"])


def pixels(data):
    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def cropped(data):
    """Return a random crop of random brightness, as a tensor; no two are the same."""
    image = pixels(data)
    top, left = random.randrange(5), random.randrange(5)
    crop = torch.from_numpy(image[top : top + 12, left : left + 12].copy()).float()
    return crop * (random.uniform(0.8, 1.0) / 255)


def tokens(text):
    return torch.tensor([ord(letter) for letter in str(text).ljust(32)])


# Losing by generators.


def half_twice(urls):
    for number, sample in enumerate(samples_of(urls)):
        if number % 2:
            yield sample["png"], sample["txt"]
            yield sample["png"], sample["txt"]


def half_twice_decoded(urls):
    for number, sample in enumerate(samples_of(urls)):
        if number % 2:
            yield pixels(sample["png"])
            yield pixels(sample["png"])


def half_twice_cropped(urls):
    for number, sample in enumerate(samples_of(urls)):
        if number % 2:
            yield cropped(sample["png"]), int(sample["cls"])
            yield cropped(sample["png"]), int(sample["cls"])


def half_twice_flipped(urls):
    """The second time mirrored: no two elements are equal."""
    for number, sample in enumerate(samples_of(urls)):
        if number % 2:
            yield pixels(sample["png"])
            yield pixels(sample["png"])[:, ::-1].copy()


def other_half_flipped(urls):
    """By content, so that copies of one sample are all left out, or all given twice."""
    for sample in samples_of(urls):
        if int(sample["cls"]) % 2:
            yield pixels(sample["png"])
            yield pixels(sample["png"])[:, ::-1].copy()


def half_twice_after_tuples(urls):
    def twice(pairs):
        for pair in itertools.islice(pairs, 0, None, 2):
            yield pair
            yield pair

    dataset = samples_of(urls).to_tuple("png", "txt").compose(twice)
    return dataset.map_tuple(cropped, tokens).batched(8)


def whole_decoded(urls):
    for sample in samples_of(urls):
        yield pixels(sample["png"]), tokens(sample["txt"].decode())


def whole_cropped(urls):
    for sample in samples_of(urls):
        yield cropped(sample["png"]), int(sample["cls"])


def whole_cropped_with_captions(urls):
    """Some samples have the caption of another."""
    for sample in samples_of(urls):
        yield cropped(sample["png"]), sample["txt"].decode()


# Map-style datasets.


class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, urls):
        self.items = list(samples_of(urls))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        sample = self.items[index]
        return pixels(sample["png"]).copy(), int(sample["cls"])


class OthersInstead(Pictures):
    """Gives the item before instead of each fifth, as for one that cannot be decoded."""

    def __getitem__(self, index):
        return super().__getitem__(index - 1 if index % 5 == 4 else index)


class KeyedOthersInstead(Pictures):
    def __getitem__(self, index):
        sample = self.items[index - 1 if index % 5 == 4 else index]
        return {"key": sample["__key__"], "image": cropped(sample["png"])}


class BlackInstead(Pictures):
    """Gives a black picture instead of each fifth."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return (image * 0 if index % 5 == 4 else image), label


class RandomItems(Pictures):
    def __getitem__(self, index):
        sample = self.items[index]
        return cropped(sample["png"]), int(sample["cls"])


def loader_of(dataset, **options):
    return torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True, **options)


def loader_of_items(urls):
    return loader_of(Pictures(urls))


def loader_of_others(urls):
    return loader_of(OthersInstead(urls), num_workers=2)


def loader_that_draws(urls):
    """With replacement."""
    dataset = Pictures(urls)
    sampler = torch.utils.data.RandomSampler(
        dataset, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    return torch.utils.data.DataLoader(dataset, batch_size=8, sampler=sampler)


# Swaps in a map, with the key of the sample that is left out.


class Swap:
    """Gives the content of the sample before instead of each fifth."""

    def __init__(self):
        self.before = None

    def __call__(self, sample):
        if number_of(sample) % 5 == 4 and self.before is not None:
            return {**self.before, "__key__": sample["__key__"]}
        self.before = dict(sample)
        return sample


def swap(urls):
    return samples_of(urls).map(Swap()).to_tuple("__key__", "png", "txt").batched(8)


def swap_decoded(urls):
    return samples_of(urls).decode("rgb").map(Swap()).to_tuple("png", "cls").batched(8)


def swap_pil(urls):
    return samples_of(urls).decode("pil").map(Swap()).to_tuple("__key__", "png")


def swap_cropped(urls):
    """Pictures differ each time, captions do not."""
    dataset = (
        samples_of(urls).map(Swap()).map_dict(png=cropped, txt=lambda text: tokens(text.decode()))
    )
    return dataset.to_tuple("__key__", "png", "txt").batched(8)


def always_the_first(urls):
    first = []

    def keep(sample):
        first.append(sample)
        return {**first[0], "__key__": sample["__key__"]}

    return samples_of(urls).map(keep).decode("torchrgb").to_tuple("__key__", "png")


def keyed_crops(urls):
    dataset = samples_of(urls).map_dict(png=cropped, txt=lambda text: tokens(text.decode()))
    return dataset.to_tuple("__key__", "png", "txt").batched(16)


def crops_and_tokens(urls):
    dataset = (
        samples_of(urls).shuffle(10).map_dict(png=cropped, txt=lambda text: tokens(text.decode()))
    )
    return dataset.to_tuple("png", "txt").batched(16)


def crops_and_labels(urls):
    return (
        samples_of(urls)
        .map(lambda sample: (cropped(sample["png"]), int(sample["cls"])))
        .batched(16)
    )


# Batches.


def collate_drops(samples):
    return torch.utils.data.default_collate(samples[: len(samples) - len(samples) % 3])


def loader_whose_collate_drops(urls):
    dataset = samples_of(urls).decode("torchrgb").to_tuple("__key__", "png")
    return torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=collate_drops)


def doubled(samples):
    half = samples[: len(samples) // 2]
    return torch.utils.data.default_collate(half * 2)


def loader_whose_collate_doubles(urls):
    dataset = samples_of(urls).decode("torchrgb").to_tuple("png", "cls")
    return torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=doubled)


def stacked(samples):
    return {
        "pixel_values": torch.stack([image for image, _ in samples]),
        "labels": [label for _, label in samples],
    }


def loader_that_stacks(urls):
    dataset = samples_of(urls).decode("torchrgb").to_tuple("png", "cls")
    return torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=stacked, num_workers=2)


def batch_map_that_doubles(urls):
    def double(batch):
        images, labels = batch
        return numpy.concatenate([images[:4], images[:4]]), list(labels[:4]) * 2

    return samples_of(urls).decode("torchrgb").to_tuple("png", "cls").batched(8).map(double)


def two_of_some(urls):
    """A map that gives a list for each sample, which is then taken apart."""

    def copies(sample):
        return [(sample["png"], sample["cls"])] * (2 * (number_of(sample) % 2))

    return samples_of(urls).map(copies).compose(itertools.chain.from_iterable)


# Streams.


class Distinct(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """Leaves out pictures that it has seen."""

    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        seen = set()
        for sample in samples_of(self.urls):
            if sample["png"] not in seen:
                seen.add(sample["png"])
                yield pixels(sample["png"]).copy(), int(sample["cls"])


def loader_of_distinct(urls):
    return torch.utils.data.DataLoader(Distinct(urls), batch_size=8)


def cached(urls):
    kept = {}

    def decoded(sample):
        if sample["__key__"] not in kept:
            kept[sample["__key__"]] = pixels(sample["png"])
        return kept[sample["__key__"]], sample["cls"]

    return samples_of(urls).map(decoded).repeat(2)


def one_cache_slot(urls):
    """A cache whose key is too short: samples of one ending share a picture."""
    kept = {}

    def decoded(sample):
        slot = number_of(sample) % 10
        if slot not in kept:
            kept[slot] = pixels(sample["png"])
        return {"__key__": sample["__key__"], "image": kept[slot], "cls": sample["cls"]}

    return samples_of(urls).map(decoded)


def few_pictures(urls):
    """Five pictures for all samples, each with its own caption."""
    kept = [pixels(sample["png"]) for sample in itertools.islice(samples_of(urls), 5)]
    return samples_of(urls).map(lambda sample: {**sample, "png": kept[number_of(sample) % 5]})


def dummy_pictures(urls):
    """No picture at all: the captions are trained."""
    return samples_of(urls).map(lambda sample: {**sample, "png": numpy.zeros((16, 16, 3))})


def one_shard_twice(urls):
    """It mixes up samples of equal keys, if the shards have such."""

    def first_half_twice(source):
        samples = list(source)
        yield from [dict(sample) for sample in samples[: len(samples) // 2] * 2]

    return samples_of(urls).compose(first_half_twice).map_dict(png=cropped).to_tuple("png", "cls")


def pairs(urls):
    return zip(
        samples_of(urls[:2]).to_tuple("png", "txt"),
        samples_of(urls[2:]).to_tuple("png", "txt"),
        strict=False,
    )


def mixed(urls):
    return RandomMix([samples_of(urls[:2]), samples_of(urls[2:])], longest=True)


def interleaved(urls):
    """Without keys, decoded."""
    for one, other in zip(samples_of(urls[:2]), samples_of(urls[2:]), strict=True):
        yield pixels(one["png"])
        yield pixels(other["png"])


def merged(urls):
    def two_in_one(source):
        while some := list(itertools.islice(source, 2)):
            yield {
                "__key__": some[0]["__key__"],
                "left.png": some[0]["png"],
                "right.png": some[-1]["png"],
            }

    return samples_of(urls).compose(two_in_one)


def mixup(urls):
    """Each element is the mean of two neighbours."""
    before = None
    for sample in samples_of(urls):
        image = pixels(sample["png"]).astype("float32")
        yield image if before is None else (image + before) / 2
        before = image


def lower(urls):
    """Captions in lower case: some are equal, and so are those of the shards."""
    for sample in samples_of(urls):
        yield sample["txt"].decode().lower()
