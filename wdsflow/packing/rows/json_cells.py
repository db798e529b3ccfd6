"""Cells of tables as JSON, which has neither bytes, times nor numbers without end."""

import json
import math
from typing import Any

import orjson


def json_bytes(facts: dict[str, Any]) -> bytes:
    """Return JSON; values that it lacks, such as times, are text."""
    try:
        return orjson.dumps(facts, default=str)
    except TypeError:
        # Integers of more than 64 bits, and text that is not UTF-8.
        return json.dumps(_finite(facts), default=str, allow_nan=False).encode()


def without_bytes(value: Any) -> Any:
    """Return a value of a cell for JSON: bytes become null, and an image with bytes its path."""
    if isinstance(value, dict):
        if isinstance(value.get("bytes"), bytes) and value.keys() <= {"bytes", "path"}:
            return value.get("path")
        return {name: without_bytes(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_bytes(part) for part in value]
    return None if isinstance(value, bytes) else value


def _finite(value: Any) -> Any:
    """Return a value in which numbers that JSON lacks are null, as orjson writes them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
