"""The functions of predicates, on single values."""

import re
from collections.abc import Callable
from functools import lru_cache

from wdsflow.expressions.score_call import Constant

# Bytes of automaton that one pattern may take; beyond, RE2 gets slower, not larger.
_PATTERN_MEMORY = 8 << 20


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[bytes]":
    """Return RE2's program for a pattern.

    RE2 runs in time linear in the text, for any pattern. Python's `re` does not: `(a+)+b` on a caption of forty
    a's would stop a run. The price: RE2 has no back-references and no look-around.
    """
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    program: re.Pattern[bytes] = re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    return program


def _matches(text: str, pattern: str) -> bool:
    # As bytes: a caption may hold invalid UTF-8, which re2 would refuse to encode.
    return _compiled(pattern).search(text.encode("utf-8", "surrogatepass")) is not None


FUNCTIONS: dict[str, Callable[..., Constant]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
    "contains": str.__contains__,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "matches": _matches,
    "length": len,
    "words": lambda text: len(text.split()),
    "abs": abs,
    "round": round,
}
