"""Options of a feed, errors that end training, and checks of a custom loop's arguments.

The options are in addition to OpenCLIP's arguments.
"""

import difflib
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any, Literal, get_args, get_origin

from wdsflow.joining.join_options import JoinOptions
from wdsflow.memory.sizes import parse_size
from wdsflow.text.install import install_extras
from wdsflow.text.options import CHECKS, OTHER, SAMPLES, allow_pipe_option, option

Schedule = Literal["openclip", "balanced"]

_READ = (
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
# Least similarity of a misspelled name: num_workers is one, local_rank is not.
_SURE = 0.77
# Names of at most so many letters are similar to too many others.
_SHORT = 5


class NoOpenClip(ModuleNotFoundError):
    """OpenCLIP's training part, or one of its dependencies, is not installed."""

    def __init__(self, missing: str = "open_clip_train") -> None:
        super().__init__(
            f"{missing} is not installed; it comes with: {install_extras('openclip')}", name=missing
        )


class FeedStopped(RuntimeError):
    """The feed cannot continue. ``wdsflow train`` prints the message alone, without a traceback."""


class DecoderError(FeedStopped):
    """A decoding process died; the message has the reason and its sample."""


class SampleError(FeedStopped):
    """The user's transform or tokenizer failed, or returned no image.

    The message names the sample.
    """


class FeedError(FeedStopped):
    """These arguments or this data cannot be fed."""


class ShardsError(FeedStopped, ValueError):
    """The shards do not exist, or none of their samples has an image and a caption."""


class ResumeError(FeedStopped, ValueError):
    """This run cannot continue exactly from a checkpoint; the message names what differs.

    The checkpoint has no state of a feed, or one of a newer version; the job has another number of
    ranks; or the feed differs: other shards or other samples in them, another schedule, seed, batch
    size, caption, image, decoding or size limit, another ledger, predicate or joined table. At the
    end of an epoch only the last three matter.
    """


class SubsetError(FeedStopped, ValueError):
    """The samples that a ledger keeps cannot be used for training.

    The message has a command that helps.
    """


class UnpairedSubset(ValueError):
    """A ledger is given without a predicate, or a predicate without a ledger."""


class JoinError(FeedStopped, ValueError):
    """The samples and the joined table do not match.

    The message has the reason and what helps.
    """


class UnpairedCache(ValueError):
    """A cache is given without its size, or a size without a cache."""


class NothingKept(SubsetError):
    """A predicate keeps no sample of the shards."""


@dataclass(frozen=True, kw_only=True)
class FeedOptions(JoinOptions):
    """Settings of a feed, including those of a joined table.

    None leaves the choice to OpenCLIP's arguments or to this machine.

    Attributes:
        argv: arguments of open_clip_train, which messages repeat in commands.
        dry_run: commands in messages only check the shards, as the command of this run did.
        fields: of ``wdsflow.feed``, which messages repeat in its call.

    Raises:
        ValueError: a value is not one of its choices, or not positive; only one of ``ledger`` and
            ``where`` is given, or only one of ``cache`` and ``cache_size``.
    """

    caption: str | None = option(
        None,
        'Where captions are: "txt|json:description;alt". Members are separated by | and tried in order; for json, name the fields, with dots for nested ones; join:COLUMN is a column of the table of --join.',
        metavar="FIELDS",
    )
    image: str | None = option(
        None,
        'Members that hold the image; the first that exists is used: "jpg;png;webp".',
        metavar="FIELDS",
    )
    caption_probs: str | Sequence[float] | None = option(
        None,
        "With several places of captions in --caption: a weight for each, such as 0.5,0.5. One is drawn for each sample and epoch.",
        metavar="WEIGHTS",
    )
    ledger: str | None = option(
        None,
        "Folder that measure or filter wrote; with --where, train only on samples that it keeps. Data for evaluation is read as a whole. Writes nothing.",
        metavar="DIR",
        panel=SAMPLES,
    )
    where: str | None = option(
        None,
        'Train only on samples that this keeps, by the scores in --ledger: "clip_similarity > 0.28".',
        metavar="PREDICATE",
        panel=SAMPLES,
    )
    cache: str | None = option(
        None,
        "Folder on a disk of this machine that keeps shards of servers, for all ranks and runs here; with --cache-size.",
        metavar="DIR",
        panel=OTHER,
    )
    cache_size: int | str | None = option(
        None,
        "Limit of all shards in --cache, such as 500GiB. Those are kept that are needed next.",
        metavar="SIZE",
        panel=OTHER,
    )
    decode: Literal["fast", "exact", "reference"] = option(
        "fast",
        "fast: JPEG at the smallest scale that is large enough. exact: every pixel, by faster libraries. reference: OpenCLIP's own pixels, to the bit.",
        metavar="MODE",
    )
    schedule: Schedule = option(
        "openclip",
        "openclip: the shards that OpenCLIP would read, in its order. balanced: each sample once per epoch, the same number of batches for each rank, even with few shards.",
        metavar="SCHEDULE",
    )
    stall_after: float = option(
        300.0, "Stop all ranks after this many seconds without a batch.", metavar="SECONDS"
    )
    memory: int | str | None = option(
        None, "Memory limit for all data in flight, such as 2GiB.", metavar="SIZE"
    )
    decoders: int | None = option(
        None,
        "Images that each rank decodes at once; by default all its processors.",
        metavar="N",
        least=1,
    )
    metrics: str | None = option(
        None,
        "Write metrics to this file: FILE.prom for Prometheus, FILE.jsonl for JSON lines.",
        metavar="FILE",
    )
    max_pixels: int | None = option(
        None, "Drop images with more pixels, by their header.", metavar="N", panel=SAMPLES, least=1
    )
    k: float = option(
        2.0,
        "With --decode fast: keep images at least K times as large as needed.",
        metavar="K",
        panel=SAMPLES,
    )
    stall_samples: int | None = option(
        None,
        "Stop all ranks after this many lost samples in a row; by default 50,000 if shards are resampled, otherwise whole passes are judged.",
        metavar="N",
        panel=CHECKS,
        least=1,
    )
    status_every: float = option(
        10.0,
        "Seconds between status lines; 0 for warnings about losses and damage only.",
        metavar="SECONDS",
        panel=CHECKS,
        least=0,
    )
    decode_in: Literal["auto", "processes", "threads"] = option(
        "auto",
        "Decode in processes or threads. auto: processes if the system forks.",
        metavar="WHERE",
        panel=OTHER,
    )
    allow_pipe: bool = allow_pipe_option(OTHER)
    argv: tuple[str, ...] = ()
    dry_run: bool = False
    fields: tuple[str, ...] = ()

    @property
    def workers_have_shards(self) -> bool:
        """Whether each worker fills its batches from its own shards, and may lack samples.

        Otherwise all workers share the shards.
        """
        return self.schedule == "openclip"

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The weights of captions."""
        if self.caption_probs is None:
            return None
        return tuple(map(float, str(self.caption_probs).split(",")))

    @property
    def cache_bytes(self) -> int | None:
        """The limit of the cache in bytes."""
        assert not isinstance(self.cache_size, str)
        return self.cache_size

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        assert not isinstance(self.memory, str)
        return self.memory

    def __post_init__(self) -> None:
        """Bring the options into one form. Raises ValueError, such as UnpairedSubset."""
        super().__post_init__()
        for item in fields(self):
            choices = get_args(item.type) if get_origin(item.type) is Literal else ()
            value = getattr(self, item.name)
            if choices and value not in choices:
                raise ValueError(
                    f"{item.name} is {value!r}; choose one of {', '.join(map(str, choices))}"
                )
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_size(self.memory))
        if self.cache_size is not None:
            object.__setattr__(self, "cache_size", parse_size(self.cache_size))
        if (self.cache is None) != (self.cache_size is None):
            given, missing = ("cache", "cache_size") if self.cache else ("cache_size", "cache")
            raise UnpairedCache(
                f"{given} is given without {missing}: the cache is a folder and a size, such as "
                'cache="/nvme/wdsflow" and cache_size="500GiB"'
            )
        if (self.ledger is None) != (self.where is None):
            given, missing = ("where", "ledger") if self.ledger is None else ("ledger", "where")
            raise UnpairedSubset(
                f"{given} is given without {missing}: both together name the samples to train on"
            )
        if self.caption_probs is not None:
            object.__setattr__(self, "caption_probs", _weights(self.caption_probs))
        for name in ("stall_after", "stall_samples", "decoders", "max_pixels"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value!r}; it must be more than 0")


def _weights(given: str | Sequence[float]) -> str:
    """Return weights as they are typed. Raises ValueError."""
    parts = given.split(",") if isinstance(given, str) else given
    try:
        return ",".join(f"{float(part):g}" for part in parts)
    except (TypeError, ValueError):
        raise ValueError(
            f"caption_probs is {given!r}; it must be a number for each place of captions"
        ) from None


def with_defaults(args: Any, defaults: Mapping[str, Any]) -> Namespace:
    """Return arguments with defaults for missing ones; the same object if none is missing.

    Raises:
        TypeError: ``args`` has no attributes, or a value that must be a whole number is not one.
        ValueError: a number is too small, or a name is a likely misspelling of a missing one that
            is read.
    """
    try:
        given = dict(args) if isinstance(args, Mapping) else vars(args)
    except TypeError as error:
        example = "such as open_clip_train.params.parse_args(['--train-data', ...]) returns"
        raise TypeError(
            f"args is a {type(args).__name__}; it must be a Namespace, {example}"
        ) from error
    complete = isinstance(args, Namespace) and defaults.keys() <= given.keys()
    if not complete:
        _check_names([name for name in given if name not in defaults and name not in _READ], given)
    for name, least in _LEAST.items():
        _check_number(name, given.get(name, defaults[name]), defaults[name], least)
    return args if complete else Namespace(**{**defaults, **given})


def _check_names(unknown: list[str], given: Mapping[str, Any]) -> None:
    for name in unknown:
        for meant in _READ:
            if meant not in given and _is_misspelled(name, meant):
                raise ValueError(f"args has {name!r}, which nothing reads: did you mean {meant}?")


def _is_misspelled(name: str, meant: str) -> bool:
    if _letters(name) == _letters(meant):
        return True
    return len(meant) > _SHORT and difflib.SequenceMatcher(None, name, meant).ratio() >= _SURE


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _check_number(name: str, value: Any, default: Any, least: int) -> None:
    if value is None and default is None:
        return
    if isinstance(value, float) and default is None and value >= least:
        return
    whole_number(f"{name} in args", value, least)


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """Return an argument that must be a whole number, of any library.

    Raises TypeError if it is none, as True and False are none here, ValueError if it is below
    ``least``.
    """
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if least is not None and number < least:
        raise ValueError(f"{name} is {value!r}; it must be at least {least}")
    return number
