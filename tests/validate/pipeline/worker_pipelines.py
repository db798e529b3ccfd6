"""Pipelines with loader processes."""

import webdataset as wds

calm = wds.ignore_and_continue


def pairs(urls):
    return wds.WebDataset(urls, handler=calm, shardshuffle=False).to_tuple(
        "jpg", "txt", handler=calm
    )


def two_workers(urls):
    return wds.WebLoader(pairs(urls), batch_size=None, num_workers=2)


def endless(urls):
    return wds.WebLoader(pairs(urls).with_epoch(100), batch_size=None, num_workers=4)


def by_hand(urls):
    stages = (
        wds.SimpleShardList(urls),
        wds.tarfile_to_samples(handler=calm),
        wds.to_tuple("jpg", "txt", handler=calm),
    )
    return wds.WebLoader(wds.DataPipeline(*stages), batch_size=None, num_workers=2)


def whole_batches(urls):
    dataset = pairs(urls).batched(4, partial=False)
    return (
        wds.WebLoader(dataset, batch_size=None, num_workers=2)
        .unbatched()
        .shuffle(10)
        .batched(3, partial=False)
    )


def shuffled_apart(urls, shuffle=wds.shuffle):
    stages = wds.SimpleShardList(urls), shuffle(100), wds.split_by_worker, wds.tarfile_to_samples()
    return wds.WebLoader(
        wds.DataPipeline(*stages, wds.to_tuple("__key__", "txt")), batch_size=None, num_workers=2
    )


def shuffled_alike(urls):
    return shuffled_apart(urls, wds.detshuffle)


BATCHED = {"whole_batches"}
