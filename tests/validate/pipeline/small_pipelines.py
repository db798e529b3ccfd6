"""Pipelines that need no library: their processes start quickly."""

import tarfile
import time


def read(urls):
    """Yield samples as dicts."""
    for url in urls:
        with tarfile.open(url) as tar:
            sample = {}
            for member in tar:
                key, _, field = member.name.partition(".")
                if sample and sample["key"] != key:
                    yield sample
                    sample = {}
                sample |= {"key": key, field: tar.extractfile(member).read()}
            if sample:
                yield sample


class Samples:
    """A dataset that opens the shards where it is read."""

    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        return read(self.urls)


def has_caption(row):
    return isinstance(row.get("txt"), str)


def captions(urls):
    for sample in read(urls):
        if "txt" in sample:
            yield sample["txt"].decode()


def captions_of(samples):
    for sample in samples:
        if "txt" in sample:
            yield sample["txt"].decode()


def from_names(urls):
    """Its first stage gives the shards, as texts."""
    return [lambda: iter(urls), read, captions_of]


def long_ones(texts):
    for text in texts:
        if len(text) > 3:
            yield text


def from_captions(urls):
    """Its first stage gives texts that are no shards."""
    return [lambda: captions(urls), long_ones]


def strict(urls):
    for sample in read(urls):
        yield sample["txt"].decode()


def hangs(urls):
    for sample in read(urls):
        while "txt" not in sample:
            time.sleep(0.01)
        yield sample


def twos(urls):
    samples = read(urls)
    return zip(samples, samples, strict=False)


def pairs(urls):
    return read(urls), read(urls)


def forgets(urls):
    read(urls)


nothing = object()


def keyed(urls):
    for sample in read(urls):
        if "txt" in sample:
            yield sample["key"], sample["txt"]


def slow(urls):
    for sample in read(urls):
        time.sleep(0.1)
        yield sample["key"], sample["jpg"]


def splits(urls):
    return {"train": read(urls), "test": read(urls)}


def endless(urls):
    while True:
        yield from captions(urls)


def raises_in_the_fourth_pass(urls):
    for _ in range(3):
        yield from read(urls)
    raise ValueError("late")
