"""Checks, before the first shard, which embeddings of an earlier run can be used."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.filtering.deciding.program import Program
from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.folder.shard_record import ShardRecord
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, no_ledgers, read_about, same_shard
from wdsflow.filtering.recipe.recipe_identity import digest
from wdsflow.filtering.recipe.recipe_stages import written_stages
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.stages.scores.model.model_score import Model

from .stored_embeddings import Served, StoredEmbeddings


class Reuse(NamedTuple):
    """The folder of an earlier run, the models whose embeddings it has, a digest of its ledgers, and missing models."""

    layout: Layout
    served: frozenset[Model]
    digest: str
    missing: tuple[str, ...]


def reuse_of(ledger: str | os.PathLike[str], names: Sequence[str], program: Program) -> Reuse:
    """Return which embeddings a run may take from the ledgers of these shards. Each ledger is checked again in its turn.

    Raises LedgerError if one is missing, or if the first has embeddings of none of the models.
    """
    layout = Layout(Path(ledger))
    if not layout.inside.is_dir():
        raise no_ledgers(layout.folder)
    try:
        marks = [fingerprint(str(layout.ledger(name))) for name in names]
    except OSError as error:
        raise LedgerError(f"a ledger is missing in {layout.folder}: {error}") from None
    first = layout.ledger(names[0])
    served = _served_by(program, read_about(first), first)
    return Reuse(layout, frozenset(served.entries), digest(marks), tuple(served.missing))


def stored_embeddings(program: Program, record: ShardRecord, reuse: Reuse) -> StoredEmbeddings:
    """Return the embeddings of a shard. Raises LedgerError: of another shard, other stages, or less than the first had."""
    path = reuse.layout.ledger(record.name)
    about = read_about(path)
    same_shard(about, record, path)
    served = _served_by(program, about, path)
    if served.entries.keys() != reuse.served:
        raise LedgerError("\n".join(served.missing) or f"{path} has more embeddings than the first ledger")
    return StoredEmbeddings(path, served.entries)


def own_embeddings(program: Program, about: dict[str, Any], path: Path) -> StoredEmbeddings | None:
    """Return the embeddings of a ledger that gets more scores; None if it has none."""
    if not about.get("embeddings"):
        return None
    served = Served(about, program.models, path)
    served.recall()
    return StoredEmbeddings(path, served.entries)


def _served_by(program: Program, about: dict[str, Any], path: Path) -> Served:
    if about["recipe"].get("stages", []) != written_stages(program.recipe.stages):
        raise LedgerError(f"{path} was scored with other stages than those of the recipe")
    served = Served(about, program.models, path)
    served.recall()
    return served
