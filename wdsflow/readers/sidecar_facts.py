"""Faults of files next to shards."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.source.base import single_shard
from wdsflow.text.shell import escape

Problem = Literal["missing", "malformed", "stale", "gone", "orphaned"]
# Examples.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SidecarFact:
    """One fault of one file next to the shards, or of several of one kind.

    "gone": it lists shards that are not there; "orphaned": a folder has files of single shards that
    are not there.
    """

    # Escaped.
    path: str
    problem: Problem
    detail: str
    # How many shards it concerns.
    shards: int = 1
    # Of the files.
    folder: str = ""
    # In that folder.
    files: tuple[str, ...] = ()
    # Options of ``wdsflow index`` that write the files again.
    kinds: tuple[str, ...] = ()


def read_text(path: str, most: int) -> str | None:
    """Return a file's text, None if the file does not exist.

    Raises ValueError or OSError with a short reason.
    """
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"larger than {most:,} bytes")
    return data.decode("utf-8")


def read_json(path: str, most: int) -> Any:
    """Return the value in a JSON file, None if the file does not exist.

    Raises ValueError, OSError, RecursionError.
    """
    text = read_text(path, most)
    return None if text is None else json.loads(text)


def file_error_text(error: Exception) -> str:
    """Return why a file cannot be read, in one line, for users.

    >>> file_error_text(json.JSONDecodeError("Expecting value", "x", 0))
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
    if isinstance(error, KeyError):
        return escape(f"it lacks {error}", 120)
    return escape(str(error), 120)


def malformed_file(name: str, detail: str) -> SidecarFact:
    """Return the fact that a file cannot be read."""
    return SidecarFact(escape(name), "malformed", detail)


def compare_counts(
    name: str, counts: Mapping[str, int | None], shards: Sequence[ShardEvidence]
) -> list[SidecarFact]:
    """Return a fact if a file's sample counts differ from those of the shards.

    ``counts``: by base name. Shards that could not be read are left out.
    """
    wrong = []
    for shard in shards:
        base = os.path.basename(shard.url)
        if base in counts and not shard.error and counts[base] != shard.samples:
            wrong.append(f"{escape(base)}: {_count_text(counts[base])} instead of {shard.samples}")
    return stale_file(name, wrong)


def _count_text(count: int | None) -> str:
    """Return a count that a file lists, as text."""
    return "no number" if count is None else escape(str(count), 30)


def nonexistent_shards(name: str, listed: Iterable[str]) -> list[SidecarFact]:
    """Return a fact if a file lists local shards that do not exist.

    Shards are listed by path, or relative to the set of the file.
    """
    folder = os.path.dirname(name).removesuffix(f"{os.sep}.nv-meta")
    absent = [shard for shard in listed if _is_missing(folder, shard)]
    if not absent:
        return []
    verb = "is" if len(absent) == 1 else "are"
    detail = f"{first_names(absent)}, which {verb} not there"
    return [SidecarFact(escape(name), "gone", detail, len(absent))]


def _is_missing(folder: str, name: str) -> bool:
    """Return whether a listed name is that of a file on this machine that does not exist."""
    if single_shard(name).path is None:
        return False
    return not os.path.lexists(os.path.join(folder, name))


def with_index_options(
    facts: Iterable[SidecarFact], folder: str, files: Sequence[str], *kinds: str
) -> list[SidecarFact]:
    """Return facts with the ``wdsflow index`` options that write their files again.

    ``files``: those in ``folder`` that the facts are about.
    """
    return [replace(fact, folder=folder, files=tuple(files), kinds=kinds) for fact in facts]


def first_names(names: Sequence[str]) -> str:
    """Return the first names in words."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(escape(name) for name in names[:_SHOWN]) + more


def stale_file(name: str, wrong: Sequence[str]) -> list[SidecarFact]:
    """Return a fact about a file and its differences from the shards, if there are any."""
    if not wrong:
        return []
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return [SidecarFact(escape(name), "stale", ", ".join(wrong[:_SHOWN]) + more, len(wrong))]


def unlisted_shards(
    name: str, listed: Collection[str], shards: Sequence[ShardEvidence]
) -> list[SidecarFact]:
    """Return a fact if a file does not list all shards by base name.

    Shards that could not be read are left out.

    No index can list those; their faults are reported first.
    """
    bases = [os.path.basename(shard.url) for shard in shards if not shard.error]
    absent = [base for base in bases if base not in listed]
    if not absent:
        return []
    return [
        SidecarFact(escape(name), "missing", f"does not list {first_names(absent)}", len(absent))
    ]


def int_or_none(value: object) -> int | None:
    """Return a count by ``int()``, None if that raises."""
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return None
