"""Where a model comes from, and in which precision it computes."""

from typing import Literal, NamedTuple

Precision = Literal["fp32", "bf16", "fp16"]


class ModelSource(NamedTuple):
    """The origin of a model that is not on this machine, and how a score names the same model in a folder."""

    repository: str = ""  # of the Hugging Face hub, "org/name"
    revision: str = ""
    folder: str = ""  # "model='FOLDER'"
    url: str = ""  # of a file, where it is in no repository
