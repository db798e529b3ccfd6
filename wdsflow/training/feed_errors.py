"""Errors that end training. Their messages say all: what happened, to which sample of which shard, what to do next."""

from wdsflow.text.install import install_extras


class NoOpenClip(ModuleNotFoundError):
    """OpenCLIP's training part is not installed, or something that it needs."""

    def __init__(self, missing: str = "open_clip_train") -> None:
        super().__init__(f"{missing} is not installed; it comes with: {install_extras('openclip')}", name=missing)


class FeedStopped(RuntimeError):
    """The feed cannot go on. ``wdsflow train`` prints the message alone, without a traceback."""


class DecoderError(FeedStopped):
    """A decoding process ended; names how, and the sample that it was at."""


class SampleError(FeedStopped):
    """The user's own transform or tokenizer failed, or returned what is no image; names the sample."""


class FeedError(FeedStopped):
    """There is no feed for these arguments, or none with this data."""


class ShardsError(FeedStopped, ValueError):
    """The arguments name shards that are not there, or in which no sample has an image and a caption."""


class ResumeError(FeedStopped, ValueError):
    """A checkpoint from which this run cannot go on exactly where that one was."""


class SubsetError(FeedStopped, ValueError):
    """The samples that a ledger keeps cannot be trained on; names the command that helps."""


class NothingKept(SubsetError):
    """A predicate keeps no sample of the shards."""
