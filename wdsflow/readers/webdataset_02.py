"""webdataset 0.2, up to the release that OpenCLIP pins, used as its own introduction shows."""

from .grouping import URL
from .webdataset_1 import WebDataset1


class WebDataset02(WebDataset1):
    """webdataset 0.2.86 or older: ``WebDataset(urls).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt")``.

    With the default handlers every error is raised, as in 1.x. Nothing marks the end of a shard: an open sample
    continues in the next shard if that begins with the same key, so that shards of one sample each, or with keys that
    begin at 0 again, raise for a field that occurs twice. Shards without a sample end silently.

    Cannot be known here: what a pickled field does (taken as valid); pipelines with custom handlers, which
    ``--pipeline`` judges.

    Source: webdataset 0.2.86, compat.py, tariterators.py, autodecode.py, filters.py.
    """

    name = "webdataset-0.2"
    title = "webdataset 0.2 (<= 0.2.86, default handlers)"
    empty_raises = False
    decoded = WebDataset1.decoded - {"pkl"}
    joins = True  # up to 0.2.88
    path_field = URL  # no other field is set
