"""The kind of a shard, by its name. Only this module derives it from the extension."""

from collections.abc import Sequence

from wdsflow.shards.shard_names import output_names

from .jsonl.jsonl_kind import JsonLines, LinesToTars, stem_of
from .recipe.recipe import Recipe
from .samples import ShardKind

_TARS, _LINES, _LINES_TO_TARS = ShardKind(), JsonLines(), LinesToTars()


def kind_of(url: str, lines_to: str = "jsonl") -> ShardKind:
    """Return the kind of a shard, or of an output. ``lines_to``: from the recipe; affects JSON lines only.

    >>> [kind_of(url).noun for url in ("a.jsonl.zst", "https://host/a.jsonl?x=1", "a.tar", "pipe:cat a.jsonl")]
    ['a file of JSON lines', 'a file of JSON lines', 'a tar', 'a tar']
    """
    if stem_of(url) is None:
        return _TARS
    return _LINES_TO_TARS if lines_to == "tar" else _LINES


def names_of(urls: Sequence[str]) -> list[str]:
    """Return the name of each shard's output: ``output_names`` for tars, the same with another extension for others.

    >>> names_of(["a/x.tar", "a/x.jsonl", "b/y.jsonl.gz"])
    ['x.tar', 'x-2.jsonl', 'y.jsonl']
    """
    stems = map(stem_of, urls)
    names = output_names([url if stem is None else f"{stem}.tar" for url, stem in zip(urls, stems, strict=True)])
    return [name.removesuffix(".tar") + kind_of(url).ending for url, name in zip(urls, names, strict=True)]


def check_shards(urls: Sequence[str], names: Sequence[str], recipe: Recipe) -> None:
    """Raise ValueError for requests that are not possible for the kind of a shard."""
    by_kind: dict[ShardKind, list[str]] = {}
    for url in urls:
        by_kind.setdefault(kind_of(url, recipe.lines_to), []).append(url)
    for kind, some in by_kind.items():
        kind.check(some, names, recipe)
