"""A comparison with a certificate as text: what differs, and the commands that help."""

import os
from collections.abc import Iterator, Sequence

from wdsflow.shards.compact import compact
from wdsflow.text.escape import escape
from wdsflow.text.shell import quote, quote_path
from wdsflow.text.words import how_many, plain, size

from .compare import Comparison, Difference
from .sidecar_kinds import MANIFEST

_SHOWN = 20  # shards of each kind
_KINDS = ("changed", "missing", "added", "unreadable", "unknown")


def comparison_lines(found: Comparison, file: str, again: str, full: str, as_json: str) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        found: the comparison.
        file: path of the certificate or manifest.
        again: the command that was typed, without options for depth and format.
        full: the option by which it reads all bytes.
        as_json: the option by which it lists everything.
    """
    certificate = found.certificate
    yield f"{certificate.kind}: {how_many(len(certificate.shards), 'shard')}, {size(certificate.size)}, root {certificate.root}"
    yield from _verdicts(found)
    for kind in _KINDS:
        yield from _differences(kind, getattr(found, kind), f"{again} {as_json}")
    yield ""
    yield _summary(found)
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


def _differences(kind: str, shards: Sequence[Difference], again: str) -> Iterator[str]:
    for shard in shards[:_SHOWN]:
        yield f"{kind:<10} {escape(shard.name, 500)}{f': {plain(shard.detail)}' if shard.detail else ''}"
    if len(shards) > _SHOWN:
        yield f"{kind:<10} {len(shards) - _SHOWN:,} more; all of them: {again}"


def _summary(found: Comparison) -> str:
    total = len(found.certificate.shards)
    how = "all bytes were hashed" if found.full else "compared by size and by ETag or time of change"
    if found.ok:
        return f"the same: all {how_many(total, 'shard')}; {how}"
    counts = [f"{len(getattr(found, kind)):,} {kind}" for kind in _KINDS if getattr(found, kind)]
    return f"NOT the same: {', '.join(counts)}; {found.same:,} of {how_many(total, 'shard')} the same; {how}"


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
        yield _accept(found, file)


def _accept(found: Comparison, file: str) -> tuple[str, str]:
    """Return how to take what is there now for right."""
    if found.certificate.kind == "certificate":
        return "or accept the shards as they are now: judge and certify them again", _certify(found, file)
    index = ["wdsflow", "index", *(quote_path(url) for url in compact(found.urls)), "--checksums"]
    folder = found.folder or os.path.dirname(found.urls[0])
    if os.path.realpath(file) == os.path.realpath(os.path.join(folder, MANIFEST)):
        index.append("--force")
    else:
        index += ["-o", quote_path(f"{os.path.splitext(file)[0]}-2")]
    return "or accept the shards as they are now: hash them again", " ".join(index)


def _certify(found: Comparison, file: str) -> str:
    """Return the command that certifies what is there now, for the same readers, next to the old certificate."""
    facts = found.certificate.facts
    stem, ending = os.path.splitext(file)
    words = ["wdsflow", "validate", *(quote_path(url) for url in compact(found.urls))]
    for verdict in found.certificate.verdicts:
        if verdict["reader"] != "pipeline":
            words += ["--for", quote(verdict["reader"])]
    if facts.get("pipeline"):
        words += ["--pipeline", quote(str(facts["pipeline"]))]
    words += ["--level", quote(str(facts["level"])), "--certify", quote_path(f"{stem}-2{ending}")]
    return " ".join(words)
