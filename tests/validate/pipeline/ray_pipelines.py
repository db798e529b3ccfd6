"""Ray Datasets, as people write them."""

import ray
from small_pipelines import has_caption  # type: ignore[import-not-found]  # next to this file


def rows(urls):
    return ray.data.read_webdataset(urls)


def with_caption(urls):
    return ray.data.read_webdataset(urls).filter(has_caption)


def strict(urls):
    return ray.data.read_webdataset(urls).map(lambda row: {"text": row["txt"]})
