"""Files of JSON lines as a kind of shards."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.samples.shard_kind import Scored, ShardKind
from wdsflow.filtering.where.language.values import Unknown
from wdsflow.shards.atomic import write_json_lines
from wdsflow.shards.source.base import Source
from wdsflow.stages.scores.sample_view import ViewOptions

from .jsonl_rows import MediaRoot, TextRows, tokens_of
from .jsonl_view import RowViews

_NAME = re.compile(r"([^/]*)\.jsonl(\.gz|\.zst|\.bz2|\.xz)?")


def stem_of(url: str) -> str | None:
    """Return the base name of a file of JSON lines without its endings, None if it is none.

    >>> stem_of("data/train.jsonl.zst"), stem_of("https://host/a.jsonl?x=1"), stem_of("data/train.tar")
    ('train', 'a', None)
    """
    if url.startswith("pipe:"):
        return None
    found = _NAME.fullmatch((url.partition("?")[0] if "://" in url else url).rpartition("/")[2])
    return found and found[1]


class JsonLines(ShardKind):
    """Files of JSON lines, of which the kept rows are copied, with their scores in a file next to it.

    A line of that is {"__dj__stats__": {score: value}}, as Data-Juicer writes it, without values that could not be
    computed or were not needed.
    """

    noun, ending, reasons = "a file of JSON lines", ".jsonl", ".reasons.jsonl"
    is_tar = by_fields = False

    def check(self, urls: Sequence[str], names: Sequence[str], recipe: Recipe) -> None:
        """Refuse what changes or numbers tars, wrong tokens, and files without a folder of images."""
        tokens_of(recipe)
        for url in urls:
            MediaRoot.of(url, recipe)
        if recipe.stages:
            raise ValueError(f"stages change the members of tars: {urls[0]} is not a tar")
        if recipe.numbering == "dense":
            raise ValueError(f"dense numbering is for tars: {urls[0]} is not a tar")

    def opened(
        self, source: Source, url: str, recipe: Recipe, options: ViewOptions, *, contents: bool
    ) -> tuple[Any, Any]:
        """Return the rows of a file, and the factory of their views."""
        return TextRows(source, url, recipe), RowViews(options, url)

    def outputs(self, path: Path) -> list[Path]:
        """Return the kept rows and their scores."""
        return [path, path.with_suffix(".stats.jsonl")]

    def write_beside(
        self, path: Path, source: Source, url: str, recipe: Recipe, kept: Sequence[Scored]
    ) -> dict[str, dict[str, Any]]:
        """Write the scores."""
        known = ({str(call): it for call, it in row.values.items() if not isinstance(it, Unknown)} for row in kept)
        write_json_lines(self.outputs(path)[1], ({"__dj__stats__": values} for values in known))
        return {}
