"""Ray Datasets, as people write them.

Ray is imported when a pipeline is made: a test process that has loaded Ray starts no server of
programs (tests/fork_server.py).
"""

from small_pipelines import has_caption  # type: ignore[import-not-found]  # next to this file


def rows(urls):
    import ray

    return ray.data.read_webdataset(urls)


def with_caption(urls):
    import ray

    return ray.data.read_webdataset(urls).filter(has_caption)


def strict(urls):
    import ray

    return ray.data.read_webdataset(urls).map(lambda row: {"text": row["txt"]})
