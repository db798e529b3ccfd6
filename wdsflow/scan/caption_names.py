"""Names in the json of samples, and which of them most likely holds the captions."""

import re
from collections.abc import Collection, Iterable

from .content.text_content import texts_in
from .evidence import JsonKey, ShardEvidence

# The names that public data sets and downloaders use for captions, the most usual first.
_USUAL = (
    "caption",
    "text",
    "description",
    "txt",
    "title",
    "alt",
    "alt_text",
    "prompt",
    "captions",
    "label",
)
_MACHINE = re.compile(
    r"(?i)^\s*(?:[a-z][a-z0-9+.-]*://|/|[a-z]:\\|data:|[{\[<]|\d[\d\s.,:/TZ+-]*$|[0-9a-f-]{16,}$|\S+\.[a-z0-9]{2,4}$"
    r"|.*\.(?:jpe?g|png|webp|gif|tiff?|bmp)\s*$)"
)

# Of one shard.
_MOST_NAMES = 200
# Strings that are all the same are no captions; fewer may be chance.
_TELLING = 4


def add_json_names(shard: ShardEvidence, tree: object) -> None:
    """Add the names in the json of a sample to ``shard.json_keys``; only an object has some."""
    for name, text, _ in texts_in(tree) if isinstance(tree, dict) else ():
        if name not in shard.json_keys and len(shard.json_keys) >= _MOST_NAMES:
            continue
        entry = shard.json_keys.setdefault(name, JsonKey())
        entry.count += 1
        if text:
            entry.note(text)


def json_names(shards: Iterable[ShardEvidence]) -> dict[str, JsonKey]:
    """Return all json names with their counts summed over shards."""
    total: dict[str, JsonKey] = {}
    for shard in shards:
        for name, item in shard.json_keys.items():
            total.setdefault(name, JsonKey()).add(item)
    return total


def caption_name(shards: Iterable[ShardEvidence]) -> tuple[str, JsonKey] | None:
    """Return the json name that most likely holds the captions, with its counts; None if none does.

    A name that captions usually have, unless another one has more than twice as many strings; then
    the one with the most strings next to a decodable image, then with the most strings. Names that
    captions do not usually have are left out where they hold one word, the same text again and
    again, a url, a path, a number or a hash. Where several names are filled alike, the usual name
    wins, then the one in fewer objects, then the longer example.
    """
    fit = [
        (name, item)
        for name, item in json_names(shards).items()
        if item.strings and _may_be_caption(name, item)
    ]
    most = max((item.strings for _, item in fit), default=0)
    return max(fit, key=lambda pair: _rank(pair[0], pair[1], most), default=None)


def other_caption_names(shards: Iterable[ShardEvidence], names: Collection[str]) -> list[str]:
    """Return the usual JSON caption names that are not in ``names``, most strings first."""
    others: list[tuple[int, str]] = []
    for name, item in json_names(shards).items():
        if item.strings and name not in names and _last(name) in _USUAL:
            others.append((-item.strings, name))
    return [name for _, name in sorted(others)]


def _may_be_caption(name: str, item: JsonKey) -> bool:
    if _last(name) in _USUAL:
        return True
    # A status, a licence or a category is one word, or the same few words each time. Some scripts
    # have no spaces.
    one_word = len(item.example.split()) == 1 and item.example.isascii()
    constant = item.strings >= _TELLING and not item.varied
    return not (one_word or constant or _MACHINE.match(item.example))


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _rank(name: str, item: JsonKey, most: int) -> tuple[bool, int, int, int, int, int, str]:
    lower = _last(name)
    usual = -_USUAL.index(lower) if lower in _USUAL else -len(_USUAL)
    enough = lower in _USUAL and item.strings * 2 >= most
    return (
        enough,
        item.with_image,
        item.strings,
        usual,
        -name.count("."),
        len(item.example.split()),
        name,
    )
