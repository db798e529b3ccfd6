"""How OpenCLIP expands ``--train-data`` into shards, and where wdsflow reads others."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from wdsflow.shards.urls import NoShards, expand
from wdsflow.shards.written_names import compact_patterns

Url = TypeVar("Url", bound=str)

_VARIABLE = re.compile(r"\$\{(\w+)\}")
# As often as webdataset: a value may name further variables.
_SUBSTITUTIONS = 10
_GLOB = re.compile(r"[*?\[]")
# Two ranges with a space between them, and where one source ends.
_RANGES = re.compile(r"\{[^{}]*\}\S*\s+\S*\{")
_BETWEEN_SOURCES = re.compile(r"::|\s+(?=\S*\.tar)")
# Of a pattern that is advised.
_MOST_SOURCES = 16


def openclip_urls(text: str) -> Iterator[str]:
    """Expand ``::``, ``${NAME}`` and braces, as webdataset's expand_urls does.

    ``${NAME}`` is the environment variable WDS_NAME.

    Raises:
        KeyError: the environment variable is not set.
    """
    from braceexpand import braceexpand

    for source in text.split("::"):
        pattern = source
        for _ in range(_SUBSTITUTIONS):
            pattern = _VARIABLE.sub(lambda match: os.environ[f"WDS_{match[1]}"], pattern)
        yield from braceexpand(pattern)


def not_expanded(data: str | None) -> dict[str, str]:
    """Return the shard patterns that OpenCLIP expands differently from wdsflow, with the reasons.

    The patterns are those in ``--train-data`` or ``--val-data``.

    It takes most of them for the name of one shard.
    """
    reasons = {}
    for pattern in (data or "").split("::"):
        reason = _why_not_expanded(pattern)
        if reason:
            reasons[pattern] = reason
    return reasons


def _why_not_expanded(pattern: str) -> str:
    if not pattern or pattern.startswith("pipe:"):
        return ""
    if os.path.isfile(pattern):
        if not _expands(pattern):
            return ""
        return "OpenCLIP expands the braces also if a file has this name; rename the file"
    if _RANGES.search(pattern):
        return "two ranges with a space between them multiply; put :: between them"
    if " " in pattern.strip() and ".tar " in pattern:
        return "a space is part of the name; put :: between several urls"
    if pattern.startswith("@"):
        return "OpenCLIP reads no lists of urls"
    if pattern.startswith("~"):
        return "~ in quotes stays as it is; write the path in full"
    if "://" not in pattern and _GLOB.search(pattern):
        return "OpenCLIP expands no globs: this is one shard of that name; use braces"
    if os.path.isdir(pattern):
        return "OpenCLIP reads no folders; name the shards with braces"
    return ""


def _expands(name: str) -> bool:
    """Return whether OpenCLIP expands the name of a file as a pattern.

    False if it cannot expand it, which ends the run.
    """
    try:
        return next(openclip_urls(name)) != name
    except (KeyError, ValueError):
        return False


def with_braces(data: str) -> str:
    """Return ``--train-data`` rewritten so that OpenCLIP reads the same local shards as wdsflow.

    "" if no such form exists.
    """
    sources = [data]
    if _RANGES.search(data):
        sources = _BETWEEN_SOURCES.split(data)
    try:
        urls = expand(sources, allow_pipe=False).urls
    except NoShards:
        return ""
    if any(url.path is None for url in urls):
        return ""
    for most in range(1, min(len(urls), _MOST_SOURCES) + 1):
        patterns = compact_patterns(urls, most)
        if len(patterns) > most:
            continue
        joined = "::".join(patterns)
        # A name may have braces, or look like a variable that is not set.
        with suppress(KeyError, ValueError):
            if list(openclip_urls(joined)) == list(urls):
                return joined
    return ""


def weighted_urls(
    sources: Sequence[str],
    factors: Sequence[str | float],
    expand_source: Callable[[str], Iterable[Url]],
) -> tuple[list[Url], list[float]]:
    """Return the shards of several sources, and a weight for each.

    Raises ValueError if a factor is not a number, or if there are more or fewer of them than
    sources.
    """
    if len(sources) != len(factors):
        raise ValueError(
            f"--train-data has {len(sources)} sources, --train-data-upsampling-factors {len(factors)}"
        )
    # All factors before the first source is expanded: one that is not a number is reported first.
    numbers = [float(factor) for factor in factors]
    urls: list[Url] = []
    weights: list[float] = []
    for source, weight in zip(sources, numbers, strict=True):
        for url in expand_source(source):
            urls.append(url)
            weights.append(weight)
    return urls, weights
