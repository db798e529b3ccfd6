"""The training command after ``--`` on the command line, parsed as open_clip_train would parse it.

They are read by open_clip_train's own parser if that is installed and fits the requested version,
otherwise by a small one that knows the flags that decide about data.
"""

import argparse
import contextlib
import difflib
import importlib.util
import io
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from wdsflow.installed import version_of
from wdsflow.readers.base import Options, Reader
from wdsflow.readers.installed_versions import release_numbers
from wdsflow.shards.shard_names import IMAGES
from wdsflow.text.words import enumeration

from .models import why_no_model
from .versions import OpenClip4

# In 4.x and not in 3.3.0.
SINCE_4 = frozenset(
    (
        "--image-key --text-key --json-text-key --json-text-key-probs --max-image-pixels --use-naflex "
        "--force-naflex-vision --naflex-num-train-image-tokens --naflex-patch-sizes --naflex-patch-size-probs "
        "--naflex-seq-lens --naflex-seq-len-probs --naflex-max-tokens-per-batch --naflex-max-text-tokens "
        "--naflex-batch-divisor --naflex-loss-scale --naflex-pad-multiple --text-pad-multiple --length-bucketing "
        "--bucket-pool --bucket-chunk --bucket-prefetch-pools --audio-ext --audio-fill --audio-trunc --audio-fusion "
        "--audio-int16-normalize --audio-layer-decay --audio-multiprocessing-context --audio-zeroshot-audio-key "
        "--audio-zeroshot-class-key --audio-zeroshot-dataset --audio-zeroshot-multiprocessing-context "
        "--audio-zeroshot-split --audio-zeroshot-target-key --audio-zeroshot-template --audio-zeroshot-workers "
        "--text-pooler-own-group --pretrained-audio --opt-kwargs --opt-fallback-list --text-layer-decay --image-layer-decay --visual-layer-decay "
        "--wd-exclude --fsdp --fsdp-checkpoint --fsdp-offload-cpu --fsdp-no-reshard-after-forward --torchcompile-strategy "
        "--torchcompile-backend --torchcompile-mode --log-metric-every-n-steps --train-loss-ema-samples "
        "--val-retrieval-chunk-size --val-retrieval-precision"
    ).split()
)

# Similarity of a mistyped flag; OpenCLIP may have less similar ones.
_SURE = 0.9

_PROCESSES = ("world_size", "local_world_size", "parser")
_SEVERAL = ("force_image_size", "json_text_key_probs")
_TYPES: dict[str, Callable[[str], int | float | str]] = {
    "json_text_key_probs": float
} | dict.fromkeys(
    ("train_num_samples", "val_num_samples", "force_image_size", "force_context_length"), int
)
_CHOICES = {
    "dataset_type": (
        "webdataset",
        "webdataset-audio",
        "csv",
        "synthetic",
        "synthetic-audio",
        "auto",
    )
}

# Accelerators of a machine, unless the user says otherwise.
_LOCAL_MOST = 8

T = TypeVar("T")


def nearest_flag(word: str, flags: Iterable[str], least: float = 0.6) -> str:
    """Return the flag nearest to a mistyped one; "" if none is similar, or if the word is no flag.

    >>> nearest_flag("--batchsize=4", ["--batch-size", "--workers"])
    '--batch-size'
    """
    name = word.partition("=")[0]
    near = difflib.get_close_matches(name, flags, 1, least) if name.startswith("--") else []
    return near[0] if near else ""


def known_flags() -> set[str]:
    """Return the flags of open_clip_train.

    Without an installed one, these are the flags that decide about data.
    """
    if importlib.util.find_spec("open_clip_train") is None:
        return _flags_in(_data_parser().format_help()) | SINCE_4
    # Imports argparse and ast only.
    from open_clip_train.params import parse_args

    said = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        parse_args(["--help"])
    return _flags_in(said.getvalue()) - {"--help"}


def _flags_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def parse_without_openclip(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the flags that decide about data, with OpenCLIP's defaults; pass over all others."""
    parser = _data_parser()
    known, others = parser.parse_known_args(list(argv))
    flags = _flags_in(parser.format_help())
    if wrong := [
        word for word in others if word not in SINCE_4 and nearest_flag(word, flags, _SURE)
    ]:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if [word for word in others if word.endswith(".tar")]:
        parser.error("unrecognized arguments: " + " ".join(others))
    return known


def _data_parser() -> argparse.ArgumentParser:
    # Without abbreviations: "--lr" must not be taken for
    # the beginning of a flag that is known here.
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for each in fields(Arguments):
        name, default = each.name, each.default
        if name in _PROCESSES:
            continue
        flag = f"--{name.replace('_', '-')}"
        kind = int if isinstance(default, int) else _TYPES.get(name, str)
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif name in _SEVERAL:
            parser.add_argument(flag, type=kind, nargs="+")
        else:
            parser.add_argument(flag, type=kind, default=default, choices=_CHOICES.get(name))
    return parser


class ArgumentsError(ValueError):
    """A training command that open_clip_train refuses, or that cannot be judged."""


def names_shards(data: str | None, dataset_type: str) -> bool:
    """Return whether ``--train-data`` or ``--val-data`` names shards, as wdsflow reads it.

    With "auto", a name that ends as neither csv nor tsv does.

    >>> names_shards("a.tar.zst", "auto"), names_shards("a.csv", "auto"), names_shards("a.csv", "webdataset")
    (True, False, True)
    """
    name = str(data or "").split("?")[0].rstrip("/")
    other = name.rpartition(".")[2] in ("csv", "tsv")
    return bool(name) and (dataset_type == "webdataset" or (dataset_type == "auto" and not other))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of open_clip_train that decide about data, under its names.

    Also has how many processes run it.
    """

    train_data: str | None = None
    val_data: str | None = None
    train_num_samples: int | None = None
    val_num_samples: int | None = None
    dataset_type: str = "auto"
    dataset_resampled: bool = False
    train_data_upsampling_factors: str | None = None
    seed: int = 0
    workers: int = 4
    # Per process.
    batch_size: int = 64
    accum_freq: int = 1
    epochs: int = 32
    warmup: int = 10_000
    skip_scheduler: bool = False
    val_frequency: int = 1
    precision: str = "amp"
    model: str = "RN50"
    # A tag of weights, or a file.
    pretrained: str = ""
    # One side, or height and width.
    force_image_size: tuple[int, ...] | None = None
    force_context_length: int | None = None
    image_key: str = IMAGES
    text_key: str = "txt"
    json_text_key: str | None = None
    json_text_key_probs: tuple[float, ...] | None = None
    max_image_pixels: int = 25_000_000
    use_naflex: bool = False
    world_size: int = 1
    # Processes on one machine.
    local_world_size: int = 1
    # Or "open_clip_train 3.3.0".
    parser: str = "wdsflow"

    def options(self, reader: type[Reader]) -> Options:
        """Return the options for a reader.

        A reader without field flags, such as 3.3, ignores those values.
        """
        run = Options(
            seed=self.seed,
            workers=self.workers,
            world_size=self.world_size,
            resampled=self.dataset_resampled,
        )
        if not reader.takes_field_flags:
            return run
        return replace(
            run,
            image_key=self.image_key or run.image_key,
            text_key=self.text_key or run.text_key,
            json_text_key=self.json_text_key or None,
            max_image_pixels=self.max_image_pixels,
        )


def parse_arguments(
    argv: Sequence[str],
    *,
    world_size: int = 1,
    local_world_size: int | None = None,
    readers: Sequence[type[Reader]] = (),
) -> Arguments:
    """Read open_clip_train's arguments.

    Args:
        argv: the words after ``--``.
        world_size: processes over all machines.
        local_world_size: processes on one machine; by default all of them, at most 8.
        readers: the requested readers. One that takes the flags of OpenCLIP 4 allows them even
            where 3.3 is installed.

    Raises:
        ArgumentsError: open_clip_train would refuse them, or a number makes no sense.
    """
    if world_size < 1 or (local_world_size is not None and not 1 <= local_world_size <= world_size):
        raise ArgumentsError(
            "--world-size must be at least 1, and a machine's share of it between 1 and that"
        )
    if not {"-h", "--help"}.isdisjoint(argv):
        raise ArgumentsError(
            "they ask for OpenCLIP's help: run python -m open_clip_train.main --help"
        )
    version = installed_openclip()
    wants_4 = any(reader.takes_field_flags for reader in readers)
    modern = [flag for word in argv if (flag := word.partition("=")[0]) in SINCE_4]
    if modern and not wants_4 and (readers or (version and release_numbers(version) < (4,))):
        here = f"; open_clip_torch {version} is installed" if version else ""
        raise ArgumentsError(
            f"{modern[0]} exists from OpenCLIP 4 on{here} (judge for that version with --for {OpenClip4.name})"
        )
    own = version is None or (wants_4 and release_numbers(version) < (4,))
    parsed = run_parser(parse_without_openclip if own else _parse_with_openclip, argv)
    values = {
        field.name: getattr(parsed, field.name)
        for field in fields(Arguments)
        if hasattr(parsed, field.name)
    }
    for name in _SEVERAL:
        value = values.get(name)
        if isinstance(value, list):
            value = tuple(value)
        elif value is not None and not isinstance(value, tuple):
            value = (value,)
        values[name] = value
    arguments = Arguments(
        **values,
        world_size=world_size,
        local_world_size=local_world_size or min(world_size, _LOCAL_MOST),
        parser="wdsflow" if own else f"open_clip_train {version}",
    )
    check_numbers(arguments)
    # Another version may have other models.
    if not own:
        check_model(arguments)
    return arguments


def installed_openclip() -> str | None:
    """Return the installed version of open_clip_torch if its training part can be imported."""
    if importlib.util.find_spec("open_clip_train") is None:
        return None
    return version_of("open_clip_torch")


def _parse_with_openclip(argv: Sequence[str]) -> Namespace:
    # Imports argparse and ast only.
    from open_clip_train.params import parse_args

    parsed: Namespace = parse_args(list(argv))
    return parsed


def run_parser(parse: Callable[[Sequence[str]], T], argv: Sequence[str]) -> T:
    """Return the result of a parser.

    Raises ArgumentsError with its message, and the flag that was probably meant.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            return parse(argv)
    except SystemExit as exit_:
        message = (
            said.getvalue().strip().rpartition("error: ")[2]
            or f"open_clip_train exits with {exit_.code}"
        )
    except (ValueError, TypeError) as error:
        message = str(error)
    loose = [word for word in argv if word.endswith(".tar")]
    if "unrecognized" in message and len(loose) > 1:
        message = "--train-data got several words: put the pattern in quotes, or the shell expands its braces"
    if "unrecognized" in message:
        flags = known_flags()
        meant = [nearest_flag(word, flags) for word in message.split() if word.startswith("--")]
        message += f"; did you mean {enumeration(filter(None, meant))}?" if any(meant) else ""
    raise ArgumentsError(message)


def check_numbers(arguments: object) -> None:
    """Raise ArgumentsError for a number below its minimum.

    ``arguments``: any object with OpenCLIP's names.
    """
    least = {"batch_size": 1, "accum_freq": 1, "workers": 0, "epochs": 0, "val_num_samples": 0}
    for name, bound in least.items():
        value = getattr(arguments, name)
        if value is not None and value < bound:
            raise ArgumentsError(
                f"--{name.replace('_', '-')} must be at least {bound}, not {value}"
            )


def check_model(arguments: object) -> None:
    """Raise ArgumentsError for a model or weights that the installed open_clip does not have.

    ``arguments``: any object with OpenCLIP's names.
    """
    name, pretrained = str(getattr(arguments, "model", "")), getattr(arguments, "pretrained", "")
    if why := why_no_model(name, str(pretrained or "")):
        raise ArgumentsError(why)
