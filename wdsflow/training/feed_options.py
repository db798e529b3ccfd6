"""Options of a feed besides OpenCLIP's own arguments, the errors that end training, and checks of a custom loop's arguments."""

import difflib
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import index
from typing import Any, Literal, get_args, get_origin

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


_COUNT = (
    "train_data",
    "val_data",
    "batch_size",
    "workers",
    "seed",
    "train_num_samples",
    "val_num_samples",
    "dataset_type",
    "dataset_resampled",
    "train_data_upsampling_factors",
    "imagenet_val",
    "imagenet_v2",
    "rank",
    "world_size",
)
_LEAST = {"batch_size": 1, "workers": 0, "train_num_samples": 1, "val_num_samples": 0}
_SURE = 0.77  # similarity from which on a name is a misspelled one: num_workers is, local_rank is not
_SHORT = 5  # letters of names that too many others are similar to


def completed(args: Any, defaults: Mapping[str, Any]) -> Namespace:
    """Return arguments, with the defaults for those that are missing; the same object where none is.

    Raises:
        TypeError: ``args`` has no attributes, or something else stands where a whole number must.
        ValueError: a number is too small, or a name is similar to one that counts, which is not given.
    """
    try:
        given = dict(args) if isinstance(args, Mapping) else vars(args)
    except TypeError as error:
        wanted = "such as open_clip_train.params.parse_args(['--train-data', ...]) returns"
        raise TypeError(f"args is a {type(args).__name__}; it must be a Namespace, {wanted}") from error
    whole = isinstance(args, Namespace) and defaults.keys() <= given.keys()
    if not whole:
        _check_names([name for name in given if name not in defaults and name not in _COUNT], given)
    for name, least in _LEAST.items():
        _check_number(name, given.get(name, defaults[name]), defaults[name], least)
    return args if whole else Namespace(**{**defaults, **given})


def _check_names(unknown: list[str], given: Mapping[str, Any]) -> None:
    for name in unknown:
        for meant in _COUNT:
            plain, wanted = (text.replace("_", "").replace("-", "").lower() for text in (name, meant))
            similar = len(meant) > _SHORT and difflib.SequenceMatcher(None, name, meant).ratio() >= _SURE
            if meant not in given and (plain == wanted or similar):
                raise ValueError(f"args has {name!r}, which nothing reads: did you mean {meant}?")


def _check_number(name: str, value: Any, default: Any, least: int) -> None:
    if value is None and default is None:
        return
    try:
        number = value if isinstance(value, float) and default is None else index(value)
    except TypeError:
        raise TypeError(f"{name} in args is {value!r}; it must be a whole number") from None
    if number < least:
        raise ValueError(f"{name} in args is {value!r}; it must be at least {least}")
