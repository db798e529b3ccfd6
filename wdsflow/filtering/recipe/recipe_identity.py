"""Checks whether a file, or a recipe, is unchanged."""

import json
from collections.abc import Iterator
from typing import Any


def canonical(value: Any) -> str:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(value: Any) -> str:
    """Return a short hash of a JSON value."""
    from xxhash import xxh3_128_hexdigest

    return str(xxh3_128_hexdigest(canonical(value).encode("utf-8", "surrogatepass")))


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Yield the differences between two trees of JSON.

    >>> list(differences({"where": "a > 1", "v": {"x": 1}}, {"where": "a > 2", "v": {"x": 1}}))
    ['where: "a > 1" is now "a > 2"']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from differences(old.get(name), new.get(name), f"{at}.{name}" if at else str(name))
    elif canonical(old) != canonical(new):
        if isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) > 8:
            yield f"{at}: {_sets(old, new)}"
        else:
            yield f"{at}: {_short(old)} is now {_short(new)}"


def _sets(old: list[Any], new: list[Any]) -> str:
    before, after = {canonical(item) for item in old}, {canonical(item) for item in new}
    return (
        f"{len(after - before):,} are new, {len(before - after):,} are missing" if before != after else "another order"
    )


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
