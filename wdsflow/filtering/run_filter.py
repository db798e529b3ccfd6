"""Filter shards, or score them: resumable, with every sample accounted for.

A filter can use the scores of an earlier run.
"""

import os

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.joining.join_options import JoinOptions

from .run_by_ledgers import filter_by_ledgers
from .run_by_scoring import score_shards
from .run_options import RunOptions
from .run_output import run_folder
from .run_report import RunReport
from .run_request import FilterRequest, Urls


def filter_shards(
    urls: Urls,
    out: str | os.PathLike[str],
    recipe: Recipe,
    options: RunOptions | None = None,
    *,
    ledger: str | os.PathLike[str] | None = None,
    embeddings_from: str | os.PathLike[str] | None = None,
    join: JoinOptions | None = None,
) -> RunReport:
    """Write, for each shard, a shard of the samples that a recipe keeps, and a ledger.

    Kept samples are the same byte for byte. The ledger has all samples of the shard.

    The same call resumes an interrupted run: shards that are finished in ``out`` are kept.

    With a ledger, scores that it has are taken from it. Others are computed for the samples that
    need them, and only these samples are read. The report counts a shard as a failure if it has no
    ledger, or if it has changed since.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        recipe: the scores to compute, and the predicate for samples to keep.
        options: how the run works; they do not change the output.
        ledger: the folder that ``measure_shards`` or ``filter_shards`` wrote. Stages, and the
            fields of images and captions, are those of its recipe.
        embeddings_from: the folder of an earlier run with ``embeddings``; scores on the same CLIP
            use its embeddings.
        join: a table whose values become fields of samples, as if ``graft`` had written them
            before.

    Raises:
        ValueError: the recipe or the options are invalid, ``urls`` match nothing (NoShards), no
            sample has a caption in the given fields (NoCaptions), or ``embeddings_from`` has no
            embeddings for this recipe (LedgerError).
        LedgerError: ``ledger`` has no ledgers, or the predicate compares samples and the ledger of
            a shard is missing.
        JoinMismatch: a ValueError; no sample has a row of the table, or several rows or samples
            have one key.
        Differs: ``out`` holds a run with another recipe, or another table.
        Busy: another run works in ``out``.
        FileExistsError: ``out`` holds files that no run wrote.
        OutputError: an output could not be written. The same call resumes the run.
        EngineError: no worker could be started, or none is left. The same call resumes the run.
    """
    options = options or RunOptions()
    with run_folder(out, options) as folder:
        request = FilterRequest(
            "filter", urls, folder, recipe, options, embeddings_from, join or JoinOptions()
        )
        if ledger is not None:
            return filter_by_ledgers(request, ledger).naming(out, folder)
        return score_shards(request).naming(out, folder)


def measure_shards(
    urls: Urls,
    out: str | os.PathLike[str],
    recipe: Recipe,
    options: RunOptions | None = None,
    *,
    embeddings_from: str | os.PathLike[str] | None = None,
    join: JoinOptions | None = None,
) -> RunReport:
    """Write the ledgers only, without shards.

    Ledgers of an earlier call get the scores that they lack; existing scores are neither computed
    again nor changed.

    Args:
        urls: shards, as for ``check``.
        out: a folder, which is created if it does not exist, or a url that fsspec can write to,
            such as ``s3://bucket/prefix``.
        recipe: the scores to compute; its predicate is ignored. If ``out`` holds ledgers, only the
            scores may differ.
        options: how the run works; they do not change the output.
        embeddings_from: the folder of an earlier run with ``embeddings``; scores on the same CLIP
            use its embeddings.
        join: a table whose values become fields of samples, as if ``graft`` had written them
            before.

    Raises:
        ValueError: as for ``filter_shards``; so are all other errors.
    """
    options = options or RunOptions()
    with run_folder(out, options) as folder:
        request = FilterRequest(
            "measure", urls, folder, recipe, options, embeddings_from, join or JoinOptions()
        )
        return score_shards(request).naming(out, folder)
