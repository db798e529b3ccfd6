"""The samples of a shard and their views, for each kind of file."""

import os
import re
from typing import Any

from wdsflow.filtering.jsonl.jsonl_names import is_lines, names_of
from wdsflow.filtering.jsonl.jsonl_rows import TextRows
from wdsflow.filtering.jsonl.jsonl_view import RowViews
from wdsflow.filtering.jsonl.media import MediaRoot
from wdsflow.filtering.jsonl.media_tokens import MediaTokens
from wdsflow.filtering.jsonl.tars import TarSize
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Source, local_file
from wdsflow.stages.scores.sample_view import ViewOptions

from .tar_fields import Views


def opened(source: Source, url: str, recipe: Recipe, options: ViewOptions, *, contents: bool) -> tuple[Any, Any]:
    """Return the iterator over the samples of a shard, and the factory of their views.

    ``contents``: read a tar as a whole instead of parts of it, even if members are large. Raises SourceError.
    """
    if is_lines(url):
        return TextRows(source, tokens_of(recipe), root_of(url, recipe)), RowViews(options, url)
    samples = Samples(source, contents=contents)
    return samples, Views(samples, options, url, recipe.stages)


def tokens_of(recipe: Recipe) -> MediaTokens:
    """Return the special tokens of a recipe. Raises ValueError."""
    return MediaTokens(image=recipe.image_token, video=recipe.video_token, end=recipe.chunk_end)


def root_of(url: str, recipe: Recipe) -> MediaRoot:
    """Return the folder to which the paths of a file are relative: the given one, otherwise that of the file. Raises ValueError."""
    if recipe.media_root:
        return MediaRoot(os.path.expanduser(recipe.media_root), absolute=True)
    path = local_file(url)
    if path is None:
        raise ValueError(f"{url} is on a server: name the folder of its images with --media-root")
    return MediaRoot(os.path.dirname(os.path.abspath(path)))


def tar_size_of(recipe: Recipe) -> TarSize:
    """Return the size of tars of JSON lines. Raises ValueError."""
    if recipe.tar_samples < 1:
        raise ValueError(f"--tar-samples must be at least 1, not {recipe.tar_samples}")
    return TarSize(recipe.tar_samples, parse_size(recipe.tar_size))


def check_lines(urls: list[str], recipe: Recipe) -> None:
    """Refuse requests that are not possible for files of JSON lines. Raises ValueError."""
    lines = [url for url in urls if is_lines(url)]
    if not lines:
        return
    tokens_of(recipe)
    if recipe.lines_to == "tar":
        tar_size_of(recipe)
        names = set(names_of(urls))
        for name in names:
            made = re.fullmatch(r"(.+)-[0-9]{6}\.tar", name)
            if made and f"{made[1]}.jsonl" in names:
                raise ValueError(
                    f"{made[1]}.jsonl and {name} would both write {name}: filter one of them into another folder"
                )
    for url in lines:
        root_of(url, recipe)
    if recipe.stages:
        raise ValueError(f"stages change the members of tars: {lines[0]} is not a tar")
    if recipe.numbering == "dense":
        raise ValueError(f"dense numbering is for tars: {lines[0]} is not a tar")
