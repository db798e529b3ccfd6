"""Pipelines of which elements hold no sample, or show no key."""

from tests.validate.pipeline.small_pipelines import read


def none_for_some(urls):
    for number, sample in enumerate(read(urls)):
        yield None if number % 2 else sample["jpg"]


def keyed_or_blank(urls):
    for number, sample in enumerate(read(urls)):
        yield (None, {"__key__": sample["key"]}, {}, {"__key__": sample["key"]})[number % 4]


def keyed_or_not(urls):
    for number, sample in enumerate(read(urls)):
        yield {"jpg": sample["jpg"]} if number % 2 else {"__key__": sample["key"]}


def lists_of_keys(urls):
    keys = [sample["key"] for sample in read(urls)]
    return (keys[start : start + 10] for start in range(0, len(keys), 10))


def half_of_them_twice(urls):
    for number, sample in enumerate(read(urls)):
        if number % 2:
            yield sample["jpg"]
            yield sample["jpg"]
