"""What a feed can be told beside OpenCLIP's own arguments, and the errors that end training."""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

from wdsflow.memory.sizes import parse_size
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


Schedule = Literal["openclip", "balanced"]


@dataclass(frozen=True, kw_only=True)
class FeedOptions:
    """Settings of a feed. None leaves the choice to OpenCLIP's arguments, or to this machine.

    Attributes:
        caption: where captions are: "txt|json:description;alt". Members are separated by bars and tried in order; for
            json, name the fields, with dots for nested ones.
        image: members that hold the image: "jpg;png". The first that exists is used.
        max_pixels: images with more pixels are dropped by their header.
        decode: how images are decoded; see ``wdsflow.stages.Decode``.
        k: with "fast", images are kept at least k times as large as needed.
        ledger: the folder that ``wdsflow score`` or ``filter`` wrote; with ``where``, training reads only samples that
            the predicate keeps. Data for evaluation is read as a whole.
        where: the predicate, as for ``wdsflow cut``: "clip_similarity > 0.28".
        schedule: "openclip" reads the shards that OpenCLIP's loader would read, in its order. "balanced" reads each
            sample once an epoch, and gives each rank the same number of batches.
        stall_after: seconds without a batch after which all ranks fail with StallError.
        stall_samples: the same in samples lost in a row. None means 50,000 if shards are resampled; otherwise whole
            passes are judged.
        memory: limit for all data in flight, in bytes or as "2GiB".
        decoders: images decoded at once.
        decode_in: decode in processes or in threads; "auto" takes processes if the system can fork.
        status_every: seconds between status lines; 0 for none, and no table at the end of an epoch. A warning reports
            damaged shards, and one lost sample in a hundred, also with 0.
        metrics: file for metrics: ``.prom`` for Prometheus, ``.jsonl`` for JSON lines.
        allow_pipe: run ``pipe:`` urls in a shell.
        argv: arguments of open_clip_train, which messages repeat in commands.

    Raises:
        ValueError: a value is not one of its choices, or not positive; only one of ``ledger`` and ``where`` is given.
    """

    caption: str | None = None
    image: str | None = None
    max_pixels: int | None = None
    decode: Literal["fast", "exact", "reference"] = "fast"
    k: float = 2.0
    ledger: str | None = None
    where: str | None = None
    schedule: Schedule = "openclip"
    stall_after: float = 300.0
    stall_samples: int | None = None
    memory: int | str | None = None
    decoders: int | None = None
    decode_in: Literal["auto", "processes", "threads"] = "auto"
    status_every: float = 10.0
    metrics: str | None = None
    allow_pipe: bool = True
    argv: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            choices = get_args(item.type) if get_origin(item.type) is Literal else ()
            value = getattr(self, item.name)
            if choices and value not in choices:
                raise ValueError(f"{item.name} is {value!r}; choose one of {', '.join(map(str, choices))}")
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_size(self.memory))
        if (self.ledger is None) != (self.where is None):
            given, lacks = ("where", "ledger") if self.ledger is None else ("ledger", "where")
            raise ValueError(f"{given} is given without {lacks}: both together name the samples to train on")
        for name in ("stall_after", "stall_samples", "decoders", "max_pixels"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value!r}; it must be more than 0")
