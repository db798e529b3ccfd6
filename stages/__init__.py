"""Stages: steps on the way of one sample from a tar to a batch.

Each is a callable from samples to samples that works wherever samples are webdataset's dicts.
"""

from .base import Counts, Dropped, SampleStage, Stage, StageError
from .batch import Batch
from .clean_text import CleanText
from .contract import ContractError
from .decode import Decode
from .drop_fields import Drop
from .has_fields import HasFields
from .json_text import JsonText
from .pipeline import Pipeline
from .rename import Rename
from .resize import Resize
from .sample import Sample
from .select import Select
from .shuffle import Shuffle
from .tokenize import Tokenize
from .unbatch import Unbatch

# A stage that is not in here is not shipped: nothing registers itself by being imported.
STAGES: dict[str, type[Stage]] = {
    stage.name: stage
    for stage in (
        Batch,
        CleanText,
        Decode,
        Drop,
        HasFields,
        JsonText,
        Rename,
        Resize,
        Sample,
        Select,
        Shuffle,
        Tokenize,
        Unbatch,
    )
}

__all__ = [
    "STAGES",
    "Batch",
    "CleanText",
    "ContractError",
    "Counts",
    "Decode",
    "Drop",
    "Dropped",
    "HasFields",
    "JsonText",
    "Pipeline",
    "Rename",
    "Resize",
    "Sample",
    "SampleStage",
    "Select",
    "Shuffle",
    "Stage",
    "StageError",
    "Tokenize",
    "Unbatch",
]
