"""The arguments of a custom loop: completed with OpenCLIP's defaults, and checked, so that nothing is ignored silently."""

import difflib
from argparse import Namespace
from collections.abc import Mapping
from operator import index
from typing import Any

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
