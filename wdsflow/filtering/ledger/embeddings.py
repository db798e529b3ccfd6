"""The embeddings that a run does not compute again.

Those of an earlier run, and those of a ledger that gets more scores.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wdsflow.filtering.recipe.recipe import canonical_json, differences, digest
from wdsflow.filtering.recipe.recipe_stages import written_stages
from wdsflow.joining.recorded_join import recorded_join
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.stages.base import SampleStage
from wdsflow.stages.scores.model.clip.towers import ClipImage, ClipText
from wdsflow.stages.scores.model.model import Model

from .ledger_metadata import (
    EmbeddingMetadata,
    LedgerError,
    LedgerMetadata,
    check_same_shard,
    no_ledgers,
    read_metadata,
)
from .stored_embeddings import Entries, StoredEmbeddings


class Reuse(NamedTuple):
    """Embeddings that a run may reuse.

    Attributes:
        layout: the folder of an earlier run.
        served: the models whose embeddings it has.
        digest: of its ledgers.
        missing: lines on models whose embeddings it lacks.
        any_table: neither run leaves out samples without a row of a table. Then the samples have
            the same numbers and images, whatever table each run joined; captions are found by their
            texts.
    """

    layout: Layout
    served: frozenset[Model]
    digest: str
    missing: tuple[str, ...]
    any_table: bool


def reuse_of(
    ledger: str | os.PathLike[str],
    names: Sequence[str],
    models: Sequence[Model],
    stages: Sequence[SampleStage],
    *,
    drops_unmatched: bool = False,
) -> Reuse:
    """Return the embeddings that a run may reuse from the ledgers of these shards.

    Each ledger is checked again later.

    ``drops_unmatched``: the run leaves out samples without a row of a table.

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
    entries, missing = _served_by(models, stages, read_metadata(first), first)
    any_table = not (drops_unmatched or recorded_join(layout.folder).get("join_drop_unmatched"))
    return Reuse(layout, frozenset(entries), digest(marks), missing, any_table)


def stored_embeddings(
    models: Sequence[Model], stages: Sequence[SampleStage], record: ShardRecord, reuse: Reuse
) -> StoredEmbeddings:
    """Return the embeddings of a shard.

    Raises LedgerError if shard or stages differ, or if some are missing.
    """
    path = reuse.layout.ledger(record.name)
    metadata = read_metadata(path)
    check_same_shard(metadata, record, path, any_table=reuse.any_table)
    entries, missing = _served_by(models, stages, metadata, path)
    if entries.keys() != reuse.served:
        raise LedgerError("\n".join(missing) or f"{path} has more embeddings than the first ledger")
    return StoredEmbeddings(path, entries)


def current_embeddings(
    models: Sequence[Model], metadata: LedgerMetadata, path: Path
) -> StoredEmbeddings | None:
    """Return the embeddings of a ledger that gets more scores; None if it has none."""
    if not metadata.get("embeddings"):
        return None
    entries, _ = _serving_columns(metadata, models, path)
    return StoredEmbeddings(path, entries)


def _served_by(
    models: Sequence[Model], stages: Sequence[SampleStage], metadata: LedgerMetadata, path: Path
) -> tuple[Entries, tuple[str, ...]]:
    if metadata["recipe"].get("stages", []) != written_stages(stages):
        raise LedgerError(f"{path} was measured with other stages than those of the recipe")
    return _serving_columns(metadata, models, path)


def _serving_columns(
    metadata: LedgerMetadata, models: Sequence[Model], path: Path
) -> tuple[Entries, tuple[str, ...]]:
    """Return the columns of a ledger that serve models.

    Also returns lines on why it lacks those of other models. Raises LedgerError.
    """
    columns = metadata.get("embeddings", [])
    if not columns:
        raise LedgerError(f"{path} has no embeddings: measure with --embeddings first")
    entries: Entries = {}
    missing: list[str] = []
    for model in models:
        if not isinstance(model, (ClipImage, ClipText)):
            continue
        identity = json.loads(canonical_json(model.identity()))
        same_model = [column for column in columns if column["model"] == identity]
        if same_model:
            entries[model] = same_model
        else:
            required = f"{model.kind} {model.model!r}, {model.pretrained!r}, {model.precision}"
            reasons = "; ".join(_differences(columns, identity))
            missing.append(f"{path} has none of the {required}: {reasons}")
    if not entries:
        if not missing:
            missing = ["--embeddings-from is for scores of a CLIP, and the recipe has none"]
        raise LedgerError("\n".join(missing))
    # Decoders need facts; models are loaded only if embeddings are missing.
    for served, same_model in entries.items():
        served.accept_facts(same_model[0]["facts"])
    return entries, tuple(missing)


def _differences(
    columns: Sequence[EmbeddingMetadata], identity: Mapping[str, object]
) -> Sequence[str]:
    """Return how the most similar model of a ledger differs from another one."""
    reasons: Sequence[str] = ()
    of_same_kind = [
        column["model"] for column in columns if column["model"]["kind"] == identity["kind"]
    ]
    if of_same_kind:
        changes = [list(differences(model, identity)) for model in of_same_kind]
        reasons = min(changes, key=len)
    return reasons or [f"it has those of the {columns[0]['model']['kind']}"]
