"""Which name in the json members of shards holds the captions."""

import re
from collections.abc import Iterable
from typing import Any

from wdsflow.scan.content.json_fields import texts_in

from .evidence import JsonKey, ShardEvidence

# The names that public data sets and downloaders use for captions, the most usual first.
_USUAL = ("caption", "text", "description", "txt", "title", "alt", "alt_text", "prompt", "captions", "label")
_MACHINE = re.compile(
    r"(?i)^\s*(?:[a-z][a-z0-9+.-]*://|/|[a-z]:\\|data:|[{\[<]|\d[\d\s.,:/TZ+-]*$|[0-9a-f-]{16,}$|\S+\.[a-z0-9]{2,4}$"
    r"|.*\.(?:jpe?g|png|webp|gif|tiff?|bmp)\s*$)"
)


_MOST_NAMES = 200  # of one shard


def note_names(shard: ShardEvidence, tree: Any) -> None:
    """Add the names in the json of a sample to ``shard.json_keys``; of one that is no object there are none."""
    for name, text, _ in texts_in(tree) if isinstance(tree, dict) else ():
        if name not in shard.json_keys and len(shard.json_keys) >= _MOST_NAMES:
            continue
        entry = shard.json_keys.setdefault(name, JsonKey())
        entry.count += 1
        if text:
            entry.strings += 1
            entry.example = entry.example or text[:60]


def json_names(shards: Iterable[ShardEvidence]) -> dict[str, JsonKey]:
    """Return all json names with their counts summed over shards."""
    total: dict[str, JsonKey] = {}
    for shard in shards:
        for name, item in shard.json_keys.items():
            entry = total.setdefault(name, JsonKey())
            entry.count += item.count
            entry.strings += item.strings
            entry.with_image += item.with_image
            entry.plain += item.plain
            entry.example = entry.example or item.example
    return total


def caption_name(shards: Iterable[ShardEvidence]) -> tuple[str, JsonKey] | None:
    """Return the json name that most likely holds the captions, with its counts; None if none does.

    The one with the most strings beside a decodable image, then with the most strings. Names whose example
    reads like a url, a path, a number or a hash are left out unless captions are usually called so. Where several
    names are filled alike, the usual name wins, then the one in fewer objects, then the longer example.
    """
    names = json_names(shards)
    fit = [(name, item) for name, item in names.items() if item.strings and _may_be_caption(name, item.example)]
    return max(fit, key=lambda pair: _rank(*pair), default=None)


def _may_be_caption(name: str, example: str) -> bool:
    return _last(name) in _USUAL or not _MACHINE.match(example)


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _rank(name: str, item: JsonKey) -> tuple[int, int, int, int, int, int, str]:
    lower = _last(name)
    usual = -_USUAL.index(lower) if lower in _USUAL else -len(_USUAL)
    words = len(item.example.split())
    # One word at a time is a status, a licence or a category, however often it is there.
    prose = int(words > 1 or lower in _USUAL)
    return prose, item.with_image, item.strings, usual, -name.count("."), words, name
