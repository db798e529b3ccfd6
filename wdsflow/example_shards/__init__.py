"""Example shards to try the commands on: drawn landscapes with captions.

They are made on this machine, without a network.

    python -m wdsflow.example_shards shards

writes four shards of ten samples each. Their captions are in json members, as many downloaders
write them, so OpenCLIP's default settings would hang on them. All pages of the documentation use
these shards.
"""

from .scenes import Scene, draw
from .shards import write_examples

__all__ = ["Scene", "draw", "write_examples"]
