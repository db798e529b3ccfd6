"""The options of ``graft``, separate from its code: the command line imports them for each help."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from wdsflow.joining.join_options import Ambiguous
from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import allow_pipe_option, option, required, restart_option


@dataclass(frozen=True, kw_only=True)
class GraftRequest:
    """The arguments of a graft.

    ``begin`` is called with the number of shards, for each of two passes. Its result is called
    after each shard.
    """

    table: str | os.PathLike[str] = required(
        "A .parquet, .csv or .jsonl file, a folder of such files, or a folder that measure or filter wrote.",
        "--from",
        metavar="TABLE",
    )
    on: str = required(
        "key, json:NAME, sha256 or xxh3 of the image; WHAT=COLUMN if the column of the table has another name.",
        metavar="WHAT",
    )
    fields: Sequence[str] = required(
        "txt=caption, or json:NAME=COLUMN for a value in the json; repeatable.",
        "--set",
        metavar="FIELD=COLUMN",
    )
    ambiguous: Ambiguous = option(
        "refuse",
        "Samples with several rows, or with the row of another sample. refuse; first: the first sample gets the first row; each: each sample gets the first row; drop: none gets any.",
        metavar="HOW",
    )
    drop_unmatched: bool = option(
        False,
        "Leave out samples that get nothing: without a row or the field of --on, or ambiguous under --ambiguous drop.",
    )
    restart: bool = restart_option()
    jobs: int = option(2, "Shards at once.", metavar="N", least=1)
    allow_pipe: bool = allow_pipe_option()
    begin: Begin | None = None
