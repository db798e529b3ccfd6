"""Globs and folders on servers that list what they have."""

import re

from wdsflow.shards.natural_order import natural
from wdsflow.shards.shard_endings import SUFFIXES

_GLOB = re.compile(r"[*\[]")  # a question mark begins the query of a url


def is_listing(url: str) -> bool:
    """Return whether a url is a glob, or a folder, on a server that may list it; web servers do by a page of links.

    >>> [is_listing(url) for url in ("s3://b/*.tar", "gs://b/a/", "s3://b/a.tar?versionId=*", "https://h/*.tar")]
    [True, True, False, True]
    >>> is_listing("http://[::1]/a.tar")
    False
    """
    path = url.partition("?")[0]
    if re.match("https?:", url):
        return path.endswith("/") or "*" in path.rpartition("/")[2]
    return path.endswith("/") or _GLOB.search(path) is not None


def listed(url: str) -> list[str]:
    """Return the urls of the shards that a glob or a folder stands for, as people count. Raises ``SourceError``."""
    from .remote import filesystem
    from .server_faults import trying

    system, path = filesystem(url)
    pattern = f"{path.rstrip('/')}/*" if url.endswith("/") else path

    def ask() -> list[str]:
        system.invalidate_cache()
        found = system.glob(pattern, detail=True)
        return [name for name, about in found.items() if about.get("type") != "directory"]

    files = trying(ask, url)
    tars = [name for name in files if name.lower().endswith(SUFFIXES)]
    chosen = tars if url.endswith("/") else tars or files
    return [system.unstrip_protocol(name) for name in sorted(chosen, key=natural)]
