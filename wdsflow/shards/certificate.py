"""A certificate: which bytes a set of shards has, and the verdicts on them. A manifest is one without verdicts.

``docs/certificate.md`` describes the format. ``validate --certify`` writes a certificate, ``index --checksums`` a manifest.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from wdsflow.shards.shard_identity import Identity
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import SourceError, local_path
from wdsflow.shards.source.remote import is_listing
from wdsflow.shards.source.remote import listed as remote_list
from wdsflow.text.shell import quote_path


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
        parts = plain_url(url).split("/")
        ends = ("/".join(parts[start:]) for start in range(len(parts)))
        name = next((end for end in ends if end in names), None)
        if name is None or name in found:
            others.append(url)
        else:
            found[name] = url
    return found, [url for url in others if url not in set(found.values())]


def is_whole(folder: str, names: Iterable[str]) -> bool:
    """Return whether it is certain that the folders of shards hold no other shards."""
    known = set(names)
    try:
        found = listed(folder, known)
    except (SourceError, OSError):
        return False
    return found is not None and known.issuperset(found)


def listed(folder: str, names: Collection[str]) -> list[str] | None:
    """Return the names of all shards in the folders of some, now; None if they cannot be listed. Raises SourceError."""
    found: list[str] = []
    for inside in sorted({name.rpartition("/")[0] for name in names}):
        place = f"{folder}{inside}/" if inside else folder
        path = local_path(place)
        if not folder or (path is None and not is_listing(place)):
            return None
        if path is None:
            there = [url.removeprefix(folder) for url in remote_list(place)]
            if place.startswith("http") and set(names).isdisjoint(there):
                return None  # a page without links to the shards does not list them
            found += there
        elif os.path.isdir(path):
            tars = (name for name in os.listdir(path) if name.lower().endswith(SUFFIXES) and name[0] != ".")
            found += [f"{inside}/{name}" if inside else name for name in tars]
    return found


VERSION = 2  # of the format; rises only if programs for the old one would break
_VERSION = "wdsflow_certificate"  # the key of the version, which no other JSON has
_OLD_MANIFEST = "wdsflow_manifest"  # the key of version 1, where there are no verdicts
_DIGEST = re.compile(rb'"digest": "([0-9a-f]{64})"\n\}\n')


class CertificateError(ValueError):
    """A file that is not a certificate or manifest, or was changed after it was written; or shards that cannot have one."""


class ShardFields(NamedTuple):
    """The contents of a shard, as a manifest lists them."""

    samples: int
    fields: Mapping[str, int]  # name -> members


@dataclass(frozen=True, slots=True)
class Certificate:
    """The bytes that were judged, with the verdicts; without verdicts it is a manifest."""

    folder: str  # of all shards, as the file names it; see ``shard_names``
    shards: Mapping[str, Identity]  # by name: the url without the folder
    facts: Mapping[str, Any] = field(default_factory=dict)  # all other values, as in the file
    whole: bool = False  # the folders of the shards held no other shards
    contents: Mapping[str, ShardFields] = field(default_factory=dict)  # of a manifest, by name

    @property
    def root(self) -> str:
        """Return the SHA-256 over the shards, 64 hexadecimal digits: the same for the same names and bytes."""
        found = sha256()
        for name in in_order(self.shards):
            shard = self.shards[name]
            found.update(f"{shard.sha256.hex()} {shard.size} ".encode() + _bytes_of(name) + b"\0")
        return found.hexdigest()

    @property
    def size(self) -> int:
        """Return the bytes of all shards as stored."""
        return sum(shard.size for shard in self.shards.values())

    @property
    def verdicts(self) -> Sequence[Mapping[str, Any]]:
        """Return the verdict for each reader."""
        found: Sequence[Mapping[str, Any]] = self.facts.get("verdicts", ())
        return found

    @property
    def kind(self) -> str:
        """Return "certificate" if there are verdicts, otherwise "manifest"."""
        return "certificate" if "verdicts" in self.facts else "manifest"


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of a certificate: by their bytes."""
    return sorted(names, key=_bytes_of)


def dump(certificate: Certificate) -> bytes:
    """Return the file: JSON with a line for each shard; the last line but one has the hash of all lines before it."""
    head = {
        _VERSION: VERSION,
        "root": certificate.root,
        "folder": certificate.folder,
        "whole": certificate.whole,
        **certificate.facts,
    }
    lines = ["{", *(f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}," for name, value in head.items())]
    lines += [*_shard_lines(certificate.shards, certificate.contents), ""]
    text = "\n".join(lines).encode()
    return text + f'"digest": "{sha256(text).hexdigest()}"\n}}\n'.encode()


def load(path: str | Path, wanted: str = "certificate", urls: Sequence[str] = ()) -> Certificate:
    """Read a certificate or a manifest; for messages, ``wanted`` is which of them is expected, ``urls`` are its shards.

    Raises CertificateError if it is neither, or was changed; OSError if it cannot be read.
    """
    data = Path(path).read_bytes()
    found = _DIGEST.search(data, max(0, len(data) - 100))
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path} is not a {wanted}, or was damaged: it is not JSON: {error}") from None
    if not isinstance(tree, dict) or tree.keys().isdisjoint((_VERSION, _OLD_MANIFEST)):
        raise CertificateError(f"{path} is not a {wanted}; write one with: {_how(wanted, urls)}")
    if found is None or found.end() != len(data) or sha256(data[: found.start()]).hexdigest() != found[1].decode():
        raise CertificateError(f"{path} was changed after it was written: its lines do not have the digest at its end")
    kind = "certificate" if "verdicts" in tree else "manifest"
    if (version := tree.pop(_VERSION, 1)) != VERSION:
        again = _how(kind, urls or _stored_urls(tree, path), path, tree.get("folder"))
        raise CertificateError(
            f"{path} is a {kind} of version {version}: only version {VERSION} can be read; write it again with: {again}"
        )
    try:
        rows = list(_shards(tree.pop("shards")))
        contents = {name: ShardFields(int(about[0]), dict(about[1])) for name, _, about in rows if about}
        folder, whole = str(tree.pop("folder")), bool(tree.pop("whole"))
        certificate = Certificate(folder, {name: shard for name, shard, _ in rows}, tree, whole, contents)
        root, real = tree.pop("root"), certificate.root
        del tree["digest"]
        if kind == "certificate":
            _check(tree)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CertificateError(f"{path} is not a {kind}: {type(error).__name__}: {error}") from None
    if real != root:
        raise CertificateError(f"{path} was changed after it was written: its shards do not have its root {root}")
    return certificate


def _how(wanted: str, urls: Sequence[str], old: str | Path = "", folder: object = "./") -> str:
    """Return the command that writes a file, or that replaces an old one, which names its shards' ``folder``.

    Without urls, it is for the folder that the user is in.
    """
    shards = [quote_path(url) for url in urls or ["."]]
    if wanted == "certificate":
        return " ".join(["wdsflow validate", *shards, "--certify", quote_path(str(old or "certificate.json"))])
    place = [] if folder == "./" else ["-o", quote_path(os.path.dirname(old) or ".")]
    return " ".join(["wdsflow index", *shards, "--checksums", *place, *(["--force"] if old else [])])


def _stored_urls(tree: Mapping[str, Any], path: str | Path) -> list[str]:
    """Return the shards, or the folder, that a file of another version names; none if its form is unknown."""
    try:
        folder = found_folder(tree["folder"], str(path))
        return [folder] if folder and tree["whole"] else [folder + name for name, *_ in _shards(tree["shards"])]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return []


def _check(facts: Mapping[str, Any]) -> None:
    """Raise KeyError or TypeError if a fact that is read later is missing or wrong."""
    texts = [facts["level"], facts["created"]]
    numbers = [facts["accepted_findings"]]
    for verdict in facts["verdicts"]:
        texts += [verdict[name] for name in ("reader", "title", "outcome")]
        numbers += [verdict[name] for name in ("usable", "samples", "exact")]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError("a fact is not of its type")


def _shard_lines(shards: Mapping[str, Identity], contents: Mapping[str, ShardFields]) -> Iterator[str]:
    """Yield ``"start of names": [`` for the shards of each folder, and a row with the rest of the name for each."""
    yield '"shards": {'
    folders: dict[str, list[str]] = {}
    for name in in_order(shards):
        folders.setdefault(name[: name.rfind("/") + 1], []).append(name)
    for number, names in enumerate(folders.values(), 1):
        shared = os.path.commonprefix(names)  # noqa: RUF071 - characters are meant
        start = shared[: max(map(shared.rfind, "/-_")) + 1]
        yield f"{json.dumps(start)}: ["
        rows = []
        for name in names:
            shard = shards[name]
            hashed = b64encode(shard.sha256).decode()
            rows.append([name[len(start) :], shard.size, hashed, shard.mark, *contents.get(name, ())])
        yield ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        yield "]" if number == len(folders) else "],"
    yield "},"


def _shards(tree: Mapping[str, Any]) -> Iterator[tuple[str, Identity, list[Any]]]:
    for start, rows in tree.items():
        for rest, size, value, mark, *contents in rows:
            digest = b64decode(value, validate=True)
            if len(digest) != 32 or not isinstance(size, int) or not isinstance(mark, int | str | None):
                raise ValueError(f"the row of {rest} is wrong")
            yield start + rest, Identity(size, digest, mark), contents


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
