"""Settings with which Energon takes captions from json."""

from collections.abc import Iterator, Sequence

from wdsflow.readers.energon_dataset import captioning
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.shard_names import IMAGE_FIELDS

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.shape_edits import CAPTION
from ..verdicts.verdict import Verdict
from .tried_edits import caption_in_json

# Letters that separate names in Energon's settings.
_SEPARATORS = frozenset("[],")


def advise_field_map(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield the settings, without a number of samples: Energon takes any value as a caption."""
    shards = context.evidence.shards
    name = caption_in_json(shards)
    if name is None or not _SEPARATORS.isdisjoint(name):
        return
    # Takes 10 ms to import, and few sets need it.
    import yaml

    images = [field for field in IMAGE_FIELDS if _has(shards, field)]
    captions = [f"json[{name}]"]
    if _has(shards, CAPTION):
        captions.insert(0, CAPTION)
    settings = captioning(images, captions)
    action = "or let Energon take captions from json, with this as .nv-meta/dataset.yaml"
    text = yaml.safe_dump(settings, sort_keys=False).rstrip()
    yield Advice(0, action, verdict.reader, command=text, language="yaml")


def _has(shards: Sequence[ShardEvidence], name: str) -> bool:
    return any(name in shard.fields for shard in shards)
