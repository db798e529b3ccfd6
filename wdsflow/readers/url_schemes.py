"""Which urls webdataset opens by itself: it starts a program for each, and knows few schemes."""

import os
import re
from urllib.parse import urlsplit

from wdsflow.readers.gopen import is_registered
from wdsflow.shards.shard import PIPE, Shard

# Handlers of webdataset.gopen, in 0.2.86 and in 1.x.
SCHEMES_02 = frozenset("pipe http https ais sftp ftps scp gs htgs".split())
SCHEMES_1 = SCHEMES_02 | {"hf"}


def why_not_opened_by_webdataset_02(url: Shard) -> str:
    """Return why webdataset 0.2 cannot open a shard by its url; "" if it can.

    >>> why_not_opened_by_webdataset_02(Shard.url("s3://bucket/0.tar"))
    'webdataset opens no s3: urls'
    """
    if why := _no_handler(url, SCHEMES_02):
        return why
    scheme = urlsplit(url).scheme
    if url.kind == "url" and "'" in url.exact and not _is_rewritten() and not is_registered(scheme):
        return f"webdataset puts {scheme}: urls between single quotes into a shell command, and this one has such a quote"
    return ""


def why_not_opened_by_webdataset_1(url: Shard) -> str:
    """Return why webdataset 1.x cannot open a shard by its url; "" if it can."""
    return _no_handler(url, SCHEMES_1)


def _no_handler(url: Shard, schemes: frozenset[str]) -> str:
    if url.kind != "url" or _is_rewritten():
        return ""
    scheme = urlsplit(url).scheme
    # AIStore opens those of USE_AIS_FOR.
    by_aistore = scheme in os.environ.get("USE_AIS_FOR", "").split(":")
    if scheme in schemes or by_aistore or is_registered(scheme):
        return ""
    return f"webdataset opens no {scheme}: urls"


def _is_rewritten() -> bool:
    """Return whether webdataset opens other urls than it is given."""
    return "GOPEN_REWRITE" in os.environ


def as_pipe(pattern: str) -> str:
    """Return a ``pipe:`` url that reads the same data; "" if none is known.

    It is for readers that do not know the scheme of the url.

    >>> as_pipe("s3://bucket/{0..3}.tar")
    'pipe:aws s3 cp s3://bucket/{0..3}.tar -'
    >>> as_pipe("hf://datasets/org/set/{0..3}.tar")
    'pipe:curl -sSfL --retry 5 https://huggingface.co/datasets/org/set/resolve/main/{0..3}.tar'
    """
    if re.fullmatch(r"s3a?://[\w./{},\-]+", pattern):
        return f"{PIPE}aws s3 cp {re.sub('^s3a', 's3', pattern)} -"
    found = re.fullmatch(
        r"hf://(datasets/|)([\w.\-]+/[\w.\-]+)(?:@([\w.\-]+))?/([\w./{},\-]+)", pattern
    )
    if found is None or pattern.startswith(("hf://spaces/", "hf://buckets/")):
        return ""
    kind, name, revision, path = found.groups()
    return f"{PIPE}curl -sSfL --retry 5 https://huggingface.co/{kind}{name}/resolve/{revision or 'main'}/{path}"
