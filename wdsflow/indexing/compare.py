"""Shards as they are now, compared with their certificate."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import identify_shard
from wdsflow.scan.scan_pool import Progress, scan_shards
from wdsflow.shards.certificate import Certificate, by_name, found_folder, in_order, listed
from wdsflow.shards.shard_identity import Stored, stored
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import SourceError, local_path, place_of
from wdsflow.shards.source.remote import is_listing
from wdsflow.shards.urls import compact, expand
from wdsflow.text.shell import escape, quote, quote_path
from wdsflow.text.words import how_many, plain, size

from .index_report import MANIFEST

_ASKED_AT_ONCE = 16  # requests to servers


class Difference(NamedTuple):
    """A shard that differs from its certificate, or may differ."""

    name: str
    url: str
    detail: str


@dataclass(slots=True)
class Comparison:
    """The outcome of each shard of a certificate."""

    certificate: Certificate
    full: bool  # all bytes were read
    same: int = 0
    changed: list[Difference] = field(default_factory=list)
    missing: list[Difference] = field(default_factory=list)
    added: list[Difference] = field(default_factory=list)
    unknown: list[Difference] = field(default_factory=list)  # of the same size: only their bytes could decide
    unreadable: list[Difference] = field(default_factory=list)
    unlisted: str = ""  # why added shards were not searched for
    folder: str = ""  # that holds all shards, and no others
    urls: list[str] = field(default_factory=list)  # all shards that exist now, even if only some were compared

    @property
    def ok(self) -> bool:
        """Whether every shard was compared and is the same, and none was added."""
        return self.same == len(self.certificate.shards) and not any(getattr(self, kind) for kind in _KINDS)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        kinds = ("changed", "missing", "added", "unknown", "unreadable")
        return {
            "version": 1,
            "ok": self.ok,
            "full": self.full,
            "root": self.certificate.root,
            "trains": self.certificate.facts.get("trains"),
            "shards": len(self.certificate.shards),
            "same": self.same,
            **{kind: [each._asdict() for each in getattr(self, kind)] for kind in kinds},
            "not_looked_for": self.unlisted,
        }


def compare(
    certificate: Certificate,
    file: str | os.PathLike[str],
    urls: Sequence[str] = (),
    *,
    full: bool = False,
    jobs: int | None = None,
    begin: Callable[[int], Progress | None] | None = None,
) -> Comparison:
    """Compare shards with their certificate.

    Args:
        certificate: the certificate or manifest.
        file: its path; shards in it may be relative to this.
        urls: the present location of the shards: one folder, or all shards; none for that in the certificate.
        full: hash all bytes; otherwise compare size, and ETag or modification time.
        jobs: processes that hash; None for one per core if there is enough to read.
        begin: called with the number of shards to hash; it returns a function that is called after each.

    Raises:
        NoShards: a pattern matches nothing.
    """
    found = Comparison(certificate, full)
    places = _places(found, os.fspath(file), urls)
    remain = _by_size_and_mark(found, places)
    if full and remain:
        _by_hash(found, places, remain, jobs, begin(len(remain)) if begin is not None else None)
    missing = {each.name for each in found.missing}
    there = [url for name, url in places.items() if name not in missing] + [each.url for each in found.added]
    if any(not each.url for each in found.missing):
        found.urls = _whole_set(certificate, os.fspath(file), found.added, places)
    else:
        found.urls = [found.folder] if found.folder and there else sorted(there)
    return found


def _whole_set(
    certificate: Certificate, file: str, added: Sequence[Difference], places: Mapping[str, str]
) -> list[str]:
    """Return all shards at the location in the certificate; none if the given shards are elsewhere."""
    home = found_folder(certificate.folder, file)
    given = [(url, home + name) for name, url in places.items()] + [(each.url, home + each.name) for each in added]
    if any(place_of(url) != place_of(there) for url, there in given):
        return []
    if certificate.whole and home and not any("/" in name for name in certificate.shards):
        return [home]
    urls = [*(home + name for name in certificate.shards), *(each.url for each in added)]
    return sorted(url for url in urls if local_path(url) is None or os.path.exists(url))


def _places(found: Comparison, file: str, urls: Sequence[str]) -> dict[str, str]:
    """Return the url of each certified shard, and record added shards."""
    certificate, names = found.certificate, in_order(found.certificate.shards)
    folder = found_folder(certificate.folder, file) if not urls else _as_folder(urls)
    if folder is None:
        places, others = by_name(expand(urls).urls, certificate.shards)
        found.added = [Difference(os.path.basename(url), url, "") for url in others]
        found.missing = [Difference(name, "", "not among the shards given") for name in names if name not in places]
        return places
    if urls or certificate.whole:
        _look_for_added(found, folder, names)
    else:
        found.unlisted = f"the {certificate.kind} is about some of the shards in their folders, or these had no list"
    return {name: folder + name for name in names}


def _as_folder(urls: Sequence[str]) -> str | None:
    """Return the folder, with its slash, if the only url is one; None otherwise."""
    if len(urls) != 1:
        return None
    path = local_path(urls[0])
    if path is not None and os.path.isdir(path):
        return os.path.join(path, "")
    if path is not None or "::" in urls[0] or is_listing(urls[0].rstrip("/")):
        return None
    return None if urls[0].partition("?")[0].lower().endswith(SUFFIXES) else f"{urls[0].rstrip('/')}/"


def _look_for_added(found: Comparison, folder: str, names: Sequence[str]) -> None:
    try:
        there = listed(folder, names)
    except (SourceError, OSError) as error:
        found.unlisted = f"{folder} could not be listed: {error}"
        return
    if there is None:
        found.unlisted = f"{folder or 'where the shards are'} has no list of its files"
        return
    found.folder = folder if not any("/" in name for name in names) else ""
    certified = found.certificate.shards
    found.added = [Difference(name, folder + name, "") for name in in_order(there) if name not in certified]


def _by_size_and_mark(found: Comparison, places: Mapping[str, str]) -> list[str]:
    """Sort shards by size, ETag and modification time; return those whose bytes have to be compared."""
    remain = []
    for name, now in _stored(places):
        url, then = places[name], found.certificate.shards[name]
        if isinstance(now, SourceError):
            kind = found.missing if now.kind == "missing" else found.unreadable
            kind.append(Difference(name, url, str(now)))
        elif now.size not in (None, then.size):
            found.changed.append(
                Difference(name, url, f"{then.size:,} bytes in the {found.certificate.kind}, now {now.size:,}")
            )
        elif found.full:
            remain.append(name)
        elif now.size is None:
            found.unknown.append(Difference(name, url, "its server does not tell its size"))
        elif now.mark == then.mark and now.mark is not None:
            found.same += 1
        else:
            found.unknown.append(Difference(name, url, _why_unknown(then.mark, now.mark)))
    return remain


def _why_unknown(then: object, now: object) -> str:
    if isinstance(then, int) and isinstance(now, int):
        return "same size, other time of change"
    if then is None or now is None:
        return "same size; no ETag and no time of change to compare"
    return "same size, other ETag" if type(then) is type(now) else "same size; it is stored elsewhere now"


def _stored(places: Mapping[str, str]) -> Iterator[tuple[str, Stored | SourceError]]:
    """Yield each name with size and mark now, or with SourceError."""

    def ask(url: str) -> Stored | SourceError:
        try:
            return stored(url)
        except SourceError as error:
            return error

    if all(local_path(url) is not None for url in places.values()):
        yield from ((name, ask(url)) for name, url in places.items())
        return
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from zip(places, pool.map(ask, places.values()), strict=True)


def _by_hash(
    found: Comparison, places: Mapping[str, str], names: Sequence[str], jobs: int | None, progress: Progress | None
) -> None:
    urls = [places[name] for name in names]
    shards = scan_shards(urls, ScanOptions(), jobs, progress, how=[identify_shard] * len(urls))
    for name, shard in zip(names, shards, strict=True):
        then = found.certificate.shards[name]
        if shard.identity is None:
            found.unreadable.append(Difference(name, shard.url, shard.error_detail or str(shard.error)))
        elif shard.identity[:2] == then[:2]:
            found.same += 1
        else:
            found.changed.append(Difference(name, shard.url, "other contents"))


_SHOWN = 20  # shards of each kind
_KINDS = ("changed", "missing", "added", "unreadable", "unknown")


def comparison_lines(found: Comparison, file: str, again: str, full: str, as_json: str) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        found: the comparison.
        file: path of the certificate or manifest.
        again: the command of the user, without options for depth and format.
        full: its option to read all bytes.
        as_json: its option to list everything.
    """
    certificate = found.certificate
    yield f"{certificate.kind}: {how_many(len(certificate.shards), 'shard')}, {size(certificate.size)}, root {certificate.root}"
    yield from _verdicts(found)
    counts = []
    for kind in _KINDS:
        shards: list[Difference] = getattr(found, kind)
        counts += [f"{len(shards):,} {kind}"] if shards else []
        for shard in shards[:_SHOWN]:
            yield f"{kind:<10} {escape(shard.name, 500)}{f': {plain(shard.detail)}' if shard.detail else ''}"
        if len(shards) > _SHOWN:
            yield f"{kind:<10} {len(shards) - _SHOWN:,} more; all of them: {again} {as_json}"
    yield ""
    how = "all bytes were hashed" if found.full else "compared by size and by ETag or time of change"
    total = how_many(len(certificate.shards), "shard")
    if found.ok:
        yield f"the same: all {total}; {how}"
    else:
        yield f"NOT the same: {', '.join(counts)}; {found.same:,} of {total} the same; {how}"
    if found.unlisted:
        yield f"added shards were not looked for: {escape(found.unlisted, 500)}"
    if found.ok:
        if not found.full:
            yield f"contents were not read; to hash them all: {again} {full}"
        return
    yield ""
    yield "What to do"
    for number, (text, command) in enumerate(_steps(found, file, again, f"{again} {full}"), 1):
        yield f"  {number}. {text if number > 1 else text.removeprefix('or ')}"
        yield f"       {command}"


def _verdicts(found: Comparison) -> Iterator[str]:
    for verdict in found.certificate.verdicts:
        most = "" if verdict["exact"] else "up to "
        numbers = f"{most}{verdict['usable']:,} of {verdict['samples']:,} samples reach a batch"
        yield f"certified {plain(found.certificate.facts['created'])}: {plain(verdict['title'])}  {verdict['outcome'].upper()}  {numbers}"
    if accepted := found.certificate.facts.get("accepted_findings"):
        yield f"{how_many(accepted, 'finding')} had been accepted"


def _steps(found: Comparison, file: str, again: str, in_full: str) -> Iterator[tuple[str, str]]:
    if found.full:
        again = in_full
    if found.unknown and not found.full:
        yield "compare the contents of those unknown, and of all others", in_full
    if found.changed:
        urls = " ".join(quote_path(url) for url in compact([each.url for each in found.changed])[:_SHOWN])
        yield "see whether those changed are damaged", f"wdsflow validate {urls}"
    if found.unreadable:
        yield "make those unreadable readable, and compare again", again
    if any(each.url for each in found.missing):
        yield "get those missing again from where the set came from, and compare again", again
    is_part = any(not each.url for each in found.missing)
    if is_part:
        how = "verify" if found.certificate.kind == "certificate" else "validate --manifest"
        yield "compare all shards, not only those given", f"wdsflow {how} {quote_path(file)}"
    if found.urls and (found.changed or found.added or (found.missing and not is_part)):
        how = "judge and certify them" if found.certificate.kind == "certificate" else "hash them"
        yield f"or accept the shards as they are now: {how} again", " ".join(_accept(found, file))


def _accept(found: Comparison, file: str) -> list[str]:
    """Return the command that accepts the shards as they are now, and writes next to the old certificate or manifest."""
    facts = found.certificate.facts
    stem, ending = os.path.splitext(file)
    urls = [quote_path(url) for url in compact(found.urls)]
    if found.certificate.kind != "certificate":
        folder = found.folder or os.path.dirname(found.urls[0])
        in_place = os.path.realpath(file) == os.path.realpath(os.path.join(folder, MANIFEST))
        output = ["--force"] if in_place else ["-o", quote_path(f"{stem}-2")]
        return ["wdsflow", "index", *urls, "--checksums", *output]
    words = ["wdsflow", "validate", *urls]
    for verdict in found.certificate.verdicts:
        if verdict["reader"] != "pipeline":
            words += ["--for", quote(verdict["reader"])]
    if facts.get("pipeline"):
        words += ["--pipeline", quote(str(facts["pipeline"]))]
    return [*words, "--level", quote(str(facts["level"])), "--certify", quote_path(f"{stem}-2{ending}")]
