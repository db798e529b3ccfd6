"""The flags of open_clip_train that decide about data, for where open_clip_train itself is not installed."""

import argparse
import contextlib
import difflib
import importlib.util
import io
import re
from collections.abc import Iterable, Sequence

# In 4.x and not in 3.3.0.
SINCE_4 = frozenset(
    (
        "--image-key --text-key --json-text-key --json-text-key-probs --max-image-pixels --use-naflex "
        "--force-naflex-vision --naflex-num-train-image-tokens --naflex-patch-sizes --naflex-patch-size-probs "
        "--naflex-seq-lens --naflex-seq-len-probs --naflex-max-tokens-per-batch --naflex-max-text-tokens "
        "--naflex-batch-divisor --naflex-loss-scale --naflex-pad-multiple --text-pad-multiple --length-bucketing "
        "--bucket-pool --bucket-chunk --bucket-prefetch-pools --audio-ext --audio-fill --audio-trunc --audio-fusion "
        "--pretrained-audio --opt-kwargs --opt-fallback-list --text-layer-decay --image-layer-decay --visual-layer-decay "
        "--wd-exclude --fsdp --fsdp-checkpoint --fsdp-offload-cpu --fsdp-no-reshard-after-forward --torchcompile-strategy "
        "--torchcompile-backend --torchcompile-mode --log-metric-every-n-steps --train-loss-ema-samples "
        "--val-retrieval-chunk-size --val-retrieval-precision"
    ).split()
)


_SURE = 0.9  # similarity of a mistyped flag: of others it is not known here whether OpenCLIP has them


def nearest_flag(word: str, flags: Iterable[str], least: float = 0.6) -> str:
    """Return the flag nearest to a mistyped one; "" if none is similar, or if the word is no flag.

    >>> nearest_flag("--batchsize=4", ["--batch-size", "--workers"])
    '--batch-size'
    """
    name = word.partition("=")[0]
    near = difflib.get_close_matches(name, flags, 1, least) if name.startswith("--") else []
    return near[0] if near else ""


def known_flags() -> set[str]:
    """Return the flags of open_clip_train: of the installed one, otherwise those that decide about data."""
    if importlib.util.find_spec("open_clip_train") is None:
        return _flags_in(_data_parser().format_help()) | SINCE_4
    from open_clip_train.params import parse_args  # imports argparse and ast only

    said = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        parse_args(["--help"])
    return _flags_in(said.getvalue()) - {"--help"}


def _flags_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def own_parser(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the flags that decide about data, with OpenCLIP's defaults; pass over all others."""
    parser = _data_parser()
    known, others = parser.parse_known_args(list(argv))
    flags = _flags_in(parser.format_help())
    if wrong := [word for word in others if word not in SINCE_4 and nearest_flag(word, flags, _SURE)]:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if [word for word in others if word.endswith(".tar")]:
        parser.error("unrecognized arguments: " + " ".join(others))
    return known


def _data_parser() -> argparse.ArgumentParser:
    # Without abbreviations: "--lr" must not be taken for the beginning of a flag that is known here.
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for flag in ("--train-data", "--val-data", "--train-data-upsampling-factors", "--json-text-key"):
        parser.add_argument(flag)
    for flag in ("--train-num-samples", "--val-num-samples", "--force-context-length"):
        parser.add_argument(flag, type=int)
    numbers = {
        "--seed": 0,
        "--workers": 4,
        "--batch-size": 64,
        "--accum-freq": 1,
        "--epochs": 32,
        "--warmup": 10_000,
        "--val-frequency": 1,
        "--max-image-pixels": 25_000_000,
    }
    for flag, number in numbers.items():
        parser.add_argument(flag, type=int, default=number)
    words = {"--precision": "amp", "--model": "RN50", "--image-key": "jpg;png;jpeg;webp", "--text-key": "txt"}
    for flag, word in words.items():
        parser.add_argument(flag, default=word)
    for flag in ("--dataset-resampled", "--skip-scheduler", "--use-naflex"):
        parser.add_argument(flag, action="store_true")
    kinds = ("webdataset", "webdataset-audio", "csv", "synthetic", "synthetic-audio", "auto")
    parser.add_argument("--dataset-type", choices=kinds, default="auto")
    parser.add_argument("--force-image-size", type=int, nargs="+")
    parser.add_argument("--json-text-key-probs", type=float, nargs="+")
    return parser
