"""Stages: steps that samples pass between a tar and a batch.

Each is a callable from samples to samples, which are webdataset's dicts.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = [
    "STAGES",
    "Batch",
    "CleanText",
    "ContractError",
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
    "StageCounts",
    "StageError",
    "Tokenize",
    "Unbatch",
]

if TYPE_CHECKING:
    from .base import Dropped, SampleStage, Stage, StageCounts, StageError
    from .batch import Batch, Unbatch
    from .caption_text import CleanText, JsonText
    from .decode import Decode
    from .fields import Drop, HasFields, Rename
    from .pipeline import ContractError, Pipeline
    from .resize import Resize
    from .select import Sample, Select, Shuffle
    from .tokenize import Tokenize

    STAGES: dict[str, type[Stage]]
else:
    # Lazy: scores, which are in this package, need few of them.
    _MODULES = {
        "base": "StageCounts Dropped SampleStage Stage StageError",
        "batch": "Batch Unbatch",
        "caption_text": "CleanText JsonText",
        "decode": "Decode",
        "resize": "Resize",
        "fields": "Drop HasFields Rename",
        "pipeline": "ContractError Pipeline",
        "select": "Sample Select Shuffle",
        "tokenize": "Tokenize",
    }
    _lazy, _names = lazy_names(
        __name__, {name: module for module, names in _MODULES.items() for name in names.split()}
    )

    def __getattr__(name: str) -> object:
        if name != "STAGES":
            return _lazy(name)
        # A stage that is not in __all__ is not shipped: nothing registers itself on import.
        offered = [_lazy(each) for each in __all__ if each != "STAGES"]
        kinds = [
            each for each in offered if isinstance(each, type) and issubclass(each, _lazy("Stage"))
        ]
        return {each.name: each for each in kinds if not each.__abstractmethods__}

    def __dir__() -> list[str]:
        return [*_names(), "STAGES"]
