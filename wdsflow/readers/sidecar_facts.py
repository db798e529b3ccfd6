"""Faults of files next to shards, and of indexes."""

import json
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.shard_names import SUFFIXES
from wdsflow.shards.source.base import SourceError, local_file, local_path, open_file
from wdsflow.shards.tar.tar_header import BLOCK, is_header
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

Problem = Literal["missing", "malformed", "stale", "gone", "orphaned"]
_SHOWN = 3  # examples


@dataclass(frozen=True, slots=True)
class SidecarFact:
    """One fault of one file next to the shards, or of several of one kind.

    "gone": it lists shards that are not there; "orphaned": a folder has files of single shards that are not there.
    """

    path: str  # escaped
    problem: Problem
    detail: str
    shards: int = 1  # how many shards it concerns
    folder: str = ""  # of the files
    files: tuple[str, ...] = ()  # in that folder
    kinds: tuple[str, ...] = ()  # options of ``wdsflow index`` that write the files again


def read_text(path: str, most: int) -> str | None:
    """Return a file's text, None if there is no such file; raises ValueError or OSError with a short reason."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"larger than {most:,} bytes")
    return data.decode("utf-8")


def read_json(path: str, most: int) -> Any:
    """Return the value in a file, None if there is no such file. Raises ValueError, OSError, RecursionError."""
    text = read_text(path, most)
    return None if text is None else json.loads(text)


def in_words(error: Exception) -> str:
    """Return why a file cannot be read, in one line, for users.

    >>> in_words(json.JSONDecodeError("Expecting value", "x", 0))
    'it is not JSON: Expecting value: line 1 column 1 (char 0)'
    """
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, (TypeError, AttributeError)):
        return "it has another form than such files have"
    if isinstance(error, json.JSONDecodeError):
        return escape(f"it is not JSON: {error}", 120)
    return escape(f"{'it lacks ' if isinstance(error, KeyError) else ''}{error}", 120)


def malformed(name: str, detail: str) -> SidecarFact:
    """Return the fact that a file cannot be read."""
    return SidecarFact(escape(name), "malformed", detail)


def compare(name: str, counts: Mapping[str, int | None], shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    """Return a fact if counts, by base names, are not those of the shards; shards that could not be read are left out."""
    wrong = []
    for shard in shards:
        base = os.path.basename(shard.url)
        if base in counts and not shard.error and counts[base] != shard.samples:
            wrong.append(f"{escape(base)}: {count_text(counts[base])} instead of {shard.samples}")
    return stale(name, wrong)


def count_text(count: int | None) -> str:
    """Return a count that a file lists, as text."""
    return "no number" if count is None else escape(str(count), 30)


def gone(name: str, listed: Iterable[str]) -> list[SidecarFact]:
    """Return a fact if a file lists local shards, by path or relative to its set, that are not there."""
    folder = os.path.dirname(name).removesuffix(f"{os.sep}.nv-meta")
    paths = ((each, local_file(each)) for each in listed)
    absent = [each for each, path in paths if path is not None and not os.path.lexists(os.path.join(folder, path))]
    detail = f"{some(absent)}, which {'is' if len(absent) == 1 else 'are'} not there"
    return [SidecarFact(escape(name), "gone", detail, len(absent))] if absent else []


def written_by(facts: Iterable[SidecarFact], folder: str, files: Sequence[str], *kinds: str) -> list[SidecarFact]:
    """Return facts about files in a folder with the options of ``wdsflow index`` that write these again."""
    return [replace(fact, folder=folder, files=tuple(files), kinds=kinds) for fact in facts]


def some(names: Sequence[str]) -> str:
    """Return the first names in words."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(escape(each) for each in names[:_SHOWN]) + more


def stale(name: str, wrong: Sequence[str]) -> list[SidecarFact]:
    """Return a fact about a file and its differences from the shards, if there are any."""
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return [SidecarFact(escape(name), "stale", ", ".join(wrong[:_SHOWN]) + more, len(wrong))] if wrong else []


def unlisted(name: str, listed: Collection[str], shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    """Return a fact if a file does not list all shards by base name; shards that could not be read are left out.

    No index can list those; their faults are reported first.
    """
    bases = [os.path.basename(shard.url) for shard in shards if not shard.error]
    absent = [base for base in bases if base not in listed]
    return [SidecarFact(escape(name), "missing", f"does not list {some(absent)}", len(absent))] if absent else []


def whole(value: object) -> int | None:
    """Return a count by ``int()``, None if that raises."""
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return None


# Indexes next to shards, of wids, timm, Energon, DALI and webshart. Only the two ends of an index of a single shard are read,
# and one header of the shard: as few bytes for a large shard as for a small one.

_LARGEST = 64 << 20  # bytes of an index of all shards; LAION-5B's would have 10 MB
_LOOKED_AT = 20  # other json files of a folder
_END = 64 << 10  # bytes of an index of one shard that are read from its start or its end
_FILESIZE = re.compile(rb'"filesize"\s*:\s*(\d+)')

_WIDS, _TIMM, _NV_INFO, _STATS = "shardindex.json", "_info.json", os.path.join(".nv-meta", ".info.json"), "_stats.json"
_MOST_ORPHANS = 1000  # files of a kind without a shard that are looked at

Check = Callable[[str, ShardEvidence], str]  # path of an index and its shard -> a fault, "" if there is none


def index_facts(path: str, shards: Sequence[ShardEvidence]) -> list[SidecarFact]:
    """Compare the indexes in a folder with its shards.

    Args:
        path: the folder.
        shards: evidence of the shards of that folder.
    """
    found = [
        *_wids(path, shards),
        *written_by(_listed(os.path.join(path, _TIMM), shards, _of_timm), path, [_TIMM], "timm"),
        *written_by(
            _listed(os.path.join(path, _NV_INFO), shards, lambda tree: dict(tree["shard_counts"])),
            path,
            [_NV_INFO],
            "energon",
        ),
    ]
    names = set(os.listdir(path))
    for ending in (".idx", ".tar.idx", ".json"):
        kind, check = _INDEXES[ending]
        wrong, files = list[str](), list[str]()
        for shard in shards:
            base = os.path.basename(shard.url)
            name = os.path.splitext(base)[0] + ending
            is_index = name in names and os.path.isfile(os.path.join(path, name))
            if is_index and not shard.error and shard.compression is None:
                try:
                    detail = check(os.path.join(path, name), shard)
                except (OSError, ValueError, IndexError, struct.error):
                    detail = "cannot be read"
                wrong += [f"{escape(name)}: {detail}"] if detail else []
                files += [name] if detail else []
        found += written_by(stale(os.path.join(path, f"*{ending}"), wrong), path, files, kind)
    return found + _orphans(path, names)


def _orphans(path: str, names: Collection[str]) -> list[SidecarFact]:
    """Return a fact about the files of single shards, also img2dataset's stats, whose shard no longer exists."""
    there = [name for name in names if name.lower().endswith(SUFFIXES)]
    stems, firsts = {os.path.splitext(name)[0] for name in there}, {name.partition(".")[0] for name in there}
    found: dict[str, list[str]] = {ending: [] for ending in (*_INDEXES, _STATS)}
    for name in sorted(names):
        ending = next((each for each in (_STATS, *_INDEXES) if name.endswith(each)), "")
        stem = name.removesuffix(ending) if ending else ""
        if not stem or stem in (firsts if ending == _STATS else stems) or not os.path.isfile(os.path.join(path, name)):
            continue
        if len(found[ending]) < _MOST_ORPHANS and _is_index(os.path.join(path, name), ending):
            found[ending].append(name)
    files = [name for orphans in found.values() for name in orphans]
    kinds = ["img2dataset" if ending == _STATS else _INDEXES[ending][0] for ending, names in found.items() if names]
    fact = SidecarFact(escape(path), "orphaned", some(files), max(map(len, found.values())))
    return written_by([fact], path, files, *kinds) if files else []


def _is_index(path: str, ending: str) -> bool:
    """Return whether a file is an index, as its name suggests: other programs use these endings, too."""
    try:
        head, tail = _ends(path)
        if ending == _STATS:
            return b'"successes"' in head and b'"failed_to_download"' in head
        if ending == ".json":
            return any(_FILESIZE.search(each) for each in (head, tail)) and b'"files"' in head
        return head.startswith(b"v1.") if ending == ".idx" else os.path.getsize(path) % 8 == 0
    except OSError:
        return False


def _wids(path: str, shards: Sequence[ShardEvidence]) -> Iterator[SidecarFact]:
    """Compare wids indexes, which may have any name: their first field identifies them."""
    own = {f"{os.path.splitext(os.path.basename(shard.url))[0]}.json" for shard in shards}
    names = [name for name in os.listdir(path) if name.endswith(".json") and not name.endswith("_stats.json")]
    for name in sorted(name for name in names if name not in own)[:_LOOKED_AT]:
        full = os.path.join(path, name)
        if not os.path.isfile(full):
            continue
        try:
            with open(full, "rb") as stream:
                if b"wids-shard-index" not in stream.read(4096):
                    continue
            rows = {os.path.basename(str(row["url"])): row for row in read_json(full, _LARGEST)["shardlist"]}
            counts = {base: whole(row["nsamples"]) for base, row in rows.items()}
            sizes = {base: row.get("filesize") for base, row in rows.items()}
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            facts = [malformed(full, in_words(error))]
        else:
            # wids counts a key again after another, and more names than others: a count may be larger, not smaller.
            wrong = [
                f"{escape(base)}: {count_text(counts[base])} instead of {shard.samples}"
                for shard in shards
                if not shard.error and (base := os.path.basename(shard.url)) in counts
                if (counts[base] or 0) < shard.samples
            ]
            facts = [*unlisted(full, counts, shards), *gone(full, (str(row["url"]) for row in rows.values()))]
            facts += stale(full, wrong or list(_sizes(sizes, shards)))
        yield from written_by(facts, path, [name], *(["wids"] if name == _WIDS else []))


def _sizes(sizes: Mapping[str, Any], shards: Sequence[ShardEvidence]) -> Iterator[str]:
    for shard in shards:
        base = os.path.basename(shard.url)
        size = sizes.get(base)
        if isinstance(size, int) and shard.size is not None and size != shard.size:
            yield f"{escape(base)}: {size:,} bytes instead of {shard.size:,}"


def _of_timm(tree: Any) -> dict[str, Any]:
    splits = tree["splits"].values()
    pairs = (pair for split in splits for pair in zip(split["filenames"], split["shard_lengths"], strict=True))
    return {str(name): count for name, count in pairs}


def _listed(
    name: str, shards: Sequence[ShardEvidence], counts_in: Callable[[Any], Mapping[str, Any]]
) -> Iterator[SidecarFact]:
    """Compare a file with a count for each shard."""
    try:
        tree = read_json(name, _LARGEST)
        if tree is None:
            return
        counts = {os.path.basename(str(each)): whole(count) for each, count in counts_in(tree).items()}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        yield malformed(name, in_words(error))
        return
    yield from unlisted(name, counts, shards)
    yield from gone(name, map(str, counts_in(tree)))
    yield from compare(name, counts, shards)


def _dali(path: str, shard: ShardEvidence) -> str:
    """Compare the number of samples, where a key that comes again is another one, and the place of the last member."""
    head, tail = _ends(path)
    if not head.startswith(b"v1."):
        return ""  # of another program
    samples = int(head.split(maxsplit=2)[1])
    if samples < shard.samples:
        return f"{how_many(samples, 'sample')} instead of {shard.samples:,}"
    words = tail.rstrip(b"\n").rpartition(b"\n")[2].split(b" ")
    at = int(words[-3 if head.startswith(b"v1.2") else -2])
    return _no_header(shard, at - BLOCK, os.fsdecode(words[-1]) if head.startswith(b"v1.2") else "")


def _energon(path: str, shard: ShardEvidence) -> str:
    """Compare the number of samples, where a key that comes again is another one, and the place of the last one."""
    size = os.path.getsize(path)
    if size % 8 or size < 8:
        return "cannot be read"
    if size // 8 - 1 < shard.samples:
        return f"{how_many(size // 8 - 1, 'sample')} instead of {shard.samples:,}"
    _, tail = _ends(path)
    last, end = struct.unpack("<2Q", tail[-16:]) if size >= 16 else (0, 0)
    if shard.size is not None and end > shard.size:
        return f"ends at byte {end:,}, and the shard at {shard.size:,}"
    return _no_header(shard, last) if size >= 16 else ""


def _webshart(path: str, shard: ShardEvidence) -> str:
    head, tail = _ends(path)
    found = _FILESIZE.search(head) or _FILESIZE.search(tail)
    if found is None or shard.size in (None, int(found[1])):
        return ""
    return f"of {int(found[1]):,} bytes instead of {shard.size:,}"


# Ending of an index of one shard -> the option of ``wdsflow index`` that writes it, and its check; the longest ending counts.
_INDEXES: dict[str, tuple[str, Check]] = {
    ".tar.idx": ("energon", _energon),
    ".idx": ("dali", _dali),
    ".json": ("webshart", _webshart),
}


def _ends(path: str) -> tuple[bytes, bytes]:
    with open(path, "rb") as stream:
        head = stream.read(_END)
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _END))
        return head, stream.read(_END)


def _no_header(shard: ShardEvidence, offset: int, name: str = "") -> str:
    """Return a fault if a local shard has no header at that place, or one of another member."""
    path = local_path(shard.url)
    if path is None:
        return ""
    try:
        file = open_file(path)
    except SourceError:
        return ""
    try:
        block = os.pread(file, BLOCK, offset) if offset >= 0 else b""
    finally:
        os.close(file)
    if len(block) < BLOCK or not is_header(block, old=True):
        return f"names byte {offset:,}, where the shard has no member"
    short = os.fsdecode(block[:100].split(b"\0")[0])  # a part of a long name: its end (USTAR) or its start (PAX)
    if name and not name.endswith(short) and not name.startswith(short):
        return f"names {escape(name, 100)} at byte {offset:,}, where the shard has {escape(short, 100)}"
    return ""
