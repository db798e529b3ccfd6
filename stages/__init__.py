"""Stages: steps on the way of one sample from a tar to a batch.

Each is a callable from samples to samples that works wherever samples are webdataset's dicts.
"""

from inspect import isabstract

from .base import Counts, Dropped, SampleStage, Stage, StageError
from .batch import Batch, Unbatch
from .clean_text import CleanText
from .decode import Decode, Resize
from .fields import Drop, HasFields, Rename
from .json_text import JsonText
from .pipeline import ContractError, Pipeline
from .select import Sample, Select, Shuffle
from .tokenize import Tokenize

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

_OFFERED = [globals()[name] for name in __all__ if name != "STAGES"]
# A stage that is not in __all__ is not shipped: nothing registers itself by being imported.
STAGES: dict[str, type[Stage]] = {
    each.name: each for each in _OFFERED if isinstance(each, type) and issubclass(each, Stage) and not isabstract(each)
}
