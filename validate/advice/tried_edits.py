"""Samples that are changed on their way to a reader: how many reach a batch."""

from collections.abc import Sequence

from wdsflow.readers.base import Reader
from wdsflow.readers.shared_keys import continued_shards
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.shapes import Shape

from ..rules.kit.base import Context
from ..rules.kit.edited_evidence import shards_after_edit
from ..rules.kit.shape_edits import Edit, is_known, is_plain
from ..verdicts.judge import judge


def unchanged(shape: Shape, has_caption: bool) -> Shape:
    """Return the shape as it is: an edit for a reader that has other settings."""
    del has_caption
    return shape


def usable_after(
    context: Context, reader: Reader, edit: Edit = unchanged, caption: str = ""
) -> int | None:
    """Return the number of samples that reach a batch after an edit.

    Returns None if the reader would or might raise an error, or if the number is not known.

    Args:
        context: the evidence of the shards as they are.
        reader: the reader with its new settings.
        edit: what changes the samples.
        caption: the name in json from which the edit takes captions.
    """
    shards = context.evidence.shards
    # An edit does not know which field of several with one name is read, nor where a sample that
    # continues in the next shard ends.
    if not is_plain(shards) or continued_shards(shards):
        return None
    edited = shards_after_edit(shards, edit, caption)
    if reader.raises and not is_known(edited):
        return None
    unreadable = [shard for shard in shards if shard.error is not None]
    verdict = judge(Evidence(context.evidence.level, [*unreadable, *edited]), reader)
    return None if verdict.outcome == "crashes" else verdict.usable


def caption_in_json(shards: Sequence[ShardEvidence]) -> str | None:
    """Return the name of the captions in json.

    Returns None if there are no captions, or if some are in nested objects or lists.
    """
    best = caption_name(shards)
    if best is None:
        return None
    name, counts = best
    return name if counts.plain == counts.strings else None
