"""The names of shards in a certificate: relative to the folder that all of them share, so that a set can be moved."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from wdsflow.shards.source.base import local_path


def plain_url(url: str) -> str:
    """Return a url to store: of a web address without query and user, which may be secret; a path as an absolute one.

    >>> plain_url("https://me:secret@host/a/0.tar?X-Amz-Signature=1f"), plain_url("s3://bucket/a.tar"), plain_url("/b/./a.tar")
    ('https://host/a/0.tar', 's3://bucket/a.tar', '/b/a.tar')
    """
    path = local_path(url)
    if path is not None:
        return os.path.abspath(path)
    if not re.match("https?:", url):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def shared_folder(urls: Sequence[str]) -> str:
    """Return the longest folder, with its slash, that all plain urls are in; "" if they are in different places.

    >>> shared_folder(["s3://b/x/a/0.tar", "s3://b/x/1.tar"]), shared_folder(["/d/0.tar"]), shared_folder(["s3://b/0.tar", "/d/0.tar"])
    ('s3://b/x/', '/d/', '')
    """
    first = min(urls).split("/")[:-1]
    last = max(urls).split("/")[:-1]
    count = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    folder = "/".join([*first[:count], ""])
    return "" if re.fullmatch(r"[^/]*:/*", folder) else folder


def stored_folder(folder: str, file: str) -> str:
    """Return the folder of shards as the certificate ``file`` names it: relative where one folder is in the other."""
    if not folder or local_path(folder) is None:
        return folder
    here = os.path.join(os.path.dirname(os.path.abspath(file)), "")
    if not (folder.startswith(here) or here.startswith(folder)) or "/" in (folder, here):
        return folder
    return os.path.join(os.path.relpath(folder, here), "")


def found_folder(stored: str, file: str) -> str:
    """Return the folder that a certificate names, from where the certificate is now."""
    if not stored or local_path(stored) is None or os.path.isabs(stored):
        return stored
    return os.path.join(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), stored)), "")


def by_name(urls: Iterable[str], names: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Return the url of each name, and the urls that have none: a name is the longest end of a url, at a slash."""
    found: dict[str, str] = {}
    others = []
    for url in urls:
        name = _name_of(plain_url(url), names)
        if name is None or name in found:
            others.append(url)
        else:
            found[name] = url
    return found, [url for url in others if url not in set(found.values())]


def _name_of(url: str, names: Mapping[str, object]) -> str | None:
    parts = url.split("/")
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in names), None)
