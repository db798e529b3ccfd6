"""Which urls webdataset opens by itself: it starts a program for each, and knows few schemes."""

import os
import re
from urllib.parse import urlsplit

from wdsflow.shards.shard import PIPE, Shard

# Handlers of webdataset.gopen, in 0.2.86 and in 1.x.
SCHEMES_02 = frozenset("pipe http https ais sftp ftps scp gs htgs".split())
SCHEMES_1 = SCHEMES_02 | {"hf"}
# Those that 0.2 puts between single quotes into a shell command.
_IN_A_SHELL = SCHEMES_02 - {"pipe"}


def unopened_by(schemes: frozenset[str], url: Shard, *, in_a_shell: bool) -> str:
    """Return why webdataset cannot open a shard by its url; "" if it can.

    ``in_a_shell``: it puts urls into shell commands, as 0.2 does. With GOPEN_REWRITE in the environment it opens other urls.

    >>> unopened_by(SCHEMES_02, Shard.url("s3://bucket/0.tar"), in_a_shell=True)
    'webdataset opens no s3: urls'
    """
    if url.path is not None or "GOPEN_REWRITE" in os.environ:
        return ""
    scheme = PIPE.rstrip(":") if url.is_pipe else urlsplit(url).scheme
    by_ais = os.environ.get("USE_AIS_FOR", "").split(":")
    if scheme not in schemes and scheme not in by_ais:
        return f"webdataset opens no {scheme}: urls"
    if in_a_shell and scheme in _IN_A_SHELL and "'" in url.exact:
        return (
            f"webdataset puts {scheme}: urls between single quotes into a shell command, and this one has such a quote"
        )
    return ""


def as_pipe(pattern: str) -> str:
    """Return a ``pipe:`` url that reads the same, for readers that do not know its scheme; "" if none is known.

    >>> as_pipe("s3://bucket/{0..3}.tar")
    'pipe:aws s3 cp s3://bucket/{0..3}.tar -'
    >>> as_pipe("hf://datasets/org/set/{0..3}.tar")
    'pipe:curl -sSfL --retry 5 https://huggingface.co/datasets/org/set/resolve/main/{0..3}.tar'
    """
    if re.fullmatch(r"s3a?://[\w./{},\-]+", pattern):
        return f"{PIPE}aws s3 cp {re.sub('^s3a', 's3', pattern)} -"
    found = re.fullmatch(r"hf://(datasets/|)([\w.\-]+/[\w.\-]+)(?:@([\w.\-]+))?/([\w./{},\-]+)", pattern)
    if found is None or pattern.startswith(("hf://spaces/", "hf://buckets/")):
        return ""
    kind, name, revision, path = found.groups()
    return f"{PIPE}curl -sSfL --retry 5 https://huggingface.co/{kind}{name}/resolve/{revision or 'main'}/{path}"
