"""Pipelines that need no library: their processes start quickly."""

import itertools
import json
import random
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


def has_caption(row):
    return isinstance(row.get("txt"), str)


def captions(urls):
    for sample in read(urls):
        if "txt" in sample:
            yield sample["txt"].decode()


def strict(urls):
    for sample in read(urls):
        yield sample["txt"].decode()


def long_captions(urls):
    return (sample for sample in read(urls) if len(sample.get("txt", b"")) > 6)


def hangs(urls):
    for sample in read(urls):
        while "txt" not in sample:
            time.sleep(0.01)
        yield sample


MODELS: list[str] = []


def loads_while_built(urls):
    time.sleep(1)
    return read(urls)


def builds_slowly_for_several(urls):
    time.sleep(3 if len(urls) > 1 else 0)
    return read(urls)


def loads_at_its_first_sample(urls):
    for sample in read(urls):
        if not MODELS:
            time.sleep(1)
            MODELS.append("model")
        yield sample


def loads_at_its_second_sample(urls):
    for sample in read(urls):
        MODELS.append("part of a model")
        time.sleep(1.0 if len(MODELS) == 2 else 0)
        yield sample


def sleepy(urls):
    for sample in read(urls):
        time.sleep(1)
        yield sample


def stops(urls):
    for sample in read(urls):
        if "txt" not in sample:
            return
        yield sample


def batches(urls):
    batch = []
    for sample in read(urls):
        batch.append(sample)
        if len(batch) == 4:
            yield batch
            batch = []


def swallows(urls):
    """Catch errors around ``next``: a generator that raised once gives nothing more."""
    source = strict(urls)
    while True:
        try:
            yield next(source)
        except StopIteration:
            return
        except KeyError:
            continue


def patient(urls):
    """Read on with the next shard where one is damaged."""
    for url in urls:
        try:
            yield from read([url])
        except tarfile.TarError:
            continue


def by_chance(urls):
    return (sample for sample in read(urls) if random.random() < 0.9)


def first_seven(urls):
    return itertools.islice(read(urls), 7)


def skips_first(urls):
    samples = read(urls)
    next(samples)
    yield from samples


def middle(urls):
    return itertools.islice(read(urls), 10, 60)


def twos(urls):
    samples = read(urls)
    return zip(samples, samples, strict=False)


def readable(urls):
    """Leave out what it cannot read."""
    for sample in read(urls):
        if sample["jpg"].endswith(b"\xff\xd9"):
            yield sample


def captioned(urls):
    for sample in read(urls):
        yield json.loads(sample["json"])["caption"].strip()


def whole_pictures(urls):
    for sample in read(urls):
        if not sample["jpg"].endswith(b"\xff\xd9"):
            raise ValueError("cut")
        yield sample


def no_strips(urls):
    for sample in read(urls):
        height = int.from_bytes(sample["jpg"][sample["jpg"].index(b"\xff\xc0") + 5 :][:2], "big")
        yield 8 // (height // 8)


def pairs(urls):
    return read(urls), read(urls)


def forgets(urls):
    read(urls)


class Tars:
    """Names its own shards."""

    def __init__(self, urls):
        self.urls = urls

    def __iter__(self):
        return read(self.urls)


own = Tars(["elsewhere/0.tar"])
nothing = object()


def without_last(urls):
    """Holds a shard out."""
    import webdataset as wds

    return wds.WebDataset(urls[:-1], shardshuffle=False)


def ordinary(urls):
    import webdataset as wds

    return wds.WebDataset(urls, shardshuffle=False, handler=wds.ignore_and_continue)


def lists(urls):
    """Batches of its own making."""

    def gathered(samples):
        while some := list(itertools.islice(samples, 4)):
            yield [sample["txt"] for sample in some] if len(some) == 4 else None

    return ordinary(urls).compose(gathered).select(bool)


def strict_beginning(urls):
    return ordinary(urls).map(lambda sample: json.loads(sample["json"])["caption"]).slice(50)


def only_long(sample):
    if len(sample["txt"]) <= 6:
        raise ValueError("short")
    return sample


def long_only(urls):
    import webdataset as wds

    return ordinary(urls).map(only_long, handler=wds.ignore_and_continue)
