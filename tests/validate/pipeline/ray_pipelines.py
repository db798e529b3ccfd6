"""Ray Datasets, as people write them."""

import ray


def rows(urls):
    return ray.data.read_webdataset(urls)


def with_caption(urls):
    return ray.data.read_webdataset(urls).filter(lambda row: isinstance(row.get("txt"), str))


def strict(urls):
    return ray.data.read_webdataset(urls).map(lambda row: {"text": row["txt"]})
