"""Pipelines of many kinds, each with one habit that a report must show.

The shards hold 40 samples, of which 4 lack a caption.
"""

import itertools
import os
import re
import sys
import time

import torch
import webdataset as wds

sys.path.insert(0, os.path.dirname(__file__))
from dataset_pipelines import Pairs  # type: ignore[import-not-found]  # next to this file

calm = wds.ignore_and_continue


def samples_of(urls):
    return wds.WebDataset(urls, shardshuffle=False)


def loses_by_branch(urls):
    def captioned(source):
        for sample in source:
            if "txt" in sample:
                yield sample

    return samples_of(urls).compose(captioned)


def caption_of(sample):
    return sample["txt"].decode()


def loses_by_exception(urls):
    return samples_of(urls).map(caption_of, handler=calm)


def loses_by_select(urls):
    return samples_of(urls).select(lambda sample: "txt" in sample).to_tuple("jpg", "txt")


def loses_rest_of_batches(urls):
    return samples_of(urls).to_tuple("jpg").batched(16, partial=False)


def loses_a_batch(urls):
    """Of 10 batches, four hold a sample without a caption."""
    return (
        samples_of(urls)
        .batched(4, collation_fn=list)
        .select(lambda batch: all("txt" in sample for sample in batch))
    )


def raises(urls):
    return samples_of(urls).map(caption_of)


def repeats_twice(urls):
    return samples_of(urls).to_tuple("jpg").repeat(2)


def repeats_without_end(urls):
    return samples_of(urls).to_tuple("jpg").repeat()


def resampled(urls):
    return wds.WebDataset(urls, resampled=True, shardshuffle=False).to_tuple("jpg").with_epoch(600)


def ends_early(urls):
    return samples_of(urls).to_tuple("jpg").slice(15)


def ends_among_shards(urls):
    return wds.DataPipeline(
        wds.SimpleShardList(urls), wds.slice(2), wds.tarfile_to_samples(), wds.to_tuple("jpg")
    )


def has_an_epoch(urls):
    return samples_of(urls).to_tuple("jpg").with_epoch(25)


def sleeps(sample):
    if sample["__key__"] == "000012":
        time.sleep(3600)
    return sample


def hangs(urls):
    return samples_of(urls).map(sleeps)


def hangs_in_c(urls):
    for number, sample in enumerate(samples_of(urls)):
        if number == 5:
            re.match("(a+)+$", "a" * 60 + "b")
        yield sample


def hangs_in_a_worker(urls):
    return wds.WebLoader(
        samples_of(urls).map(sleeps).to_tuple("jpg"), batch_size=None, num_workers=2
    )


def gives_nothing_for_ever(urls):
    while True:
        for sample in samples_of(urls):
            if "nothing" in sample:
                yield sample


def repeats_nothing(urls):
    return samples_of(urls).select(lambda sample: False).repeat()


def loader_of_pairs(urls):
    return torch.utils.data.DataLoader(Pairs(urls), batch_size=6, shuffle=True, num_workers=2)


def loader_without_split(urls):
    stages = wds.SimpleShardList(urls), wds.tarfile_to_samples(), wds.to_tuple("__key__", "jpg")
    return torch.utils.data.DataLoader(wds.DataPipeline(*stages), batch_size=4, num_workers=2)


def web_loader(urls):
    dataset = samples_of(urls).to_tuple("jpg").batched(4)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=2)
    return loader.unbatched().shuffle(10).batched(5, collation_fn=list)


def keyed_generator(urls):
    for sample in samples_of(urls):
        if "txt" in sample:
            yield sample["__key__"], sample["txt"]


def generator(urls):
    for sample in samples_of(urls):
        if "txt" in sample:
            yield sample["txt"]


def generator_twice(urls):
    return itertools.chain(generator(urls), generator(urls))


def first_shard_only(urls):
    for _ in urls:
        yield from samples_of(urls[:1])


def crops(urls):
    def twice(source):
        for sample in itertools.islice(source, 0, None, 2):
            yield sample
            yield sample

    return samples_of(urls).compose(twice).to_tuple("jpg")


def own_batches(urls):
    def gathered(source):
        while some := list(itertools.islice(source, 4)):
            yield [sample["jpg"] for sample in some]

    return samples_of(urls).compose(gathered)


def large_batches(urls):
    return samples_of(urls).to_tuple("jpg").batched(512, partial=False)


def whole(urls):
    return samples_of(urls).to_tuple("jpg").batched(8)


def streaming(urls):
    import datasets

    rows = datasets.load_dataset(
        "webdataset", data_files={"train": urls}, split="train", streaming=True
    )
    return rows.filter(lambda row: row["txt"] is not None)


elsewhere = samples_of(["elsewhere.tar"])


def one_worker_reads_all(urls):
    """Of four workers, those without a shard read nothing."""
    stages = (
        wds.SimpleShardList(urls),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.to_tuple("__key__", "jpg"),
    )
    return torch.utils.data.DataLoader(wds.DataPipeline(*stages), batch_size=4, num_workers=4)


def loader_that_repeats(urls):
    stages = (
        wds.SimpleShardList(urls),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.to_tuple("__key__", "jpg"),
    )
    return wds.WebLoader(wds.DataPipeline(*stages), batch_size=4, num_workers=2).repeat()


def late_worker(urls):
    """The first worker has read 20 samples before the other begins."""

    def captioned(source):
        for sample in source:
            if "txt" in sample:
                yield sample["__key__"], sample["txt"]

    stages = wds.SimpleShardList(urls), wds.split_by_worker, wds.tarfile_to_samples(), captioned
    return torch.utils.data.DataLoader(
        wds.DataPipeline(*stages),
        batch_size=4,
        num_workers=2,
        prefetch_factor=10,
        worker_init_fn=lambda number: time.sleep(2 * number),
    )


def resampled_nothing(urls):
    return (
        wds.WebDataset(urls, resampled=True, shardshuffle=False)
        .select(lambda sample: False)
        .with_epoch(10)
    )


def repeats_nothing_of_three(urls):
    return repeats_nothing(urls[:3])


def resampled_batches(urls):
    dataset = wds.WebDataset(urls, resampled=True, shardshuffle=False).to_tuple("__key__", "jpg")
    return dataset.batched(512, partial=False).with_epoch(2)


def raises_in_the_fourth_pass(urls):
    passes = itertools.count()

    def late(source):
        begun = next(passes)
        for sample in source:
            if begun == 3:
                raise ValueError("late")
            yield sample

    return samples_of(urls).to_tuple("jpg").compose(late).repeat(5)


def twice_in_shuffled_batches(urls):
    def twice(source):
        for sample in source:
            yield sample
            yield sample

    return samples_of(urls).compose(twice).shuffle(10).to_tuple("__key__", "jpg").batched(8)


def others_instead(urls):
    """Of every four samples, leave out two and yield the other two twice.

    The repeats do not directly follow each other.
    """

    def instead(source):
        while some := list(itertools.islice(source, 4)):
            yield from some[:2] * 2

    return samples_of(urls).compose(instead)


def others_instead_without_keys(urls):
    return others_instead(urls).to_tuple("jpg").batched(4)
