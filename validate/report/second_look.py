"""A second look at some samples, for pictures and histograms on the page: the scan itself keeps no sample."""

import gzip
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from wdsflow.images.image_header import read_header
from wdsflow.pages.histograms import Chart, chart
from wdsflow.pages.shown_samples import FoundSample, SampleView, image_field, samples_around, samples_of, view
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import caption_name
from wdsflow.shards.caption_field import LARGEST, caption_of
from wdsflow.shards.source.base import local_file

from .finding_groups import FindingGroup

MOST_SAMPLES = 20_000
CONTEXT = 77  # tokens of CLIP's text encoder, the two at the ends included
_MOST_CAPTIONS = 5_000
_ORDINALS = {2: "2nd", 3: "3rd"}
_HEAD = 64 << 10
_PICTURES, _OF_ONE = 48, 4  # of a page, of a rule
_SAMPLE_RULES = ("F", "I")  # codes of rules about fields and images


@dataclass(slots=True)
class Look:
    """What the samples looked at are like."""

    samples: int = 0
    shards: int = 0
    whole: bool = True  # all samples of all shards were looked at
    widths: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    captions: list[str] = field(default_factory=list)

    def charts(self) -> Iterator[Chart]:
        """Yield the histograms of what there is."""
        sides = list(zip(self.widths, self.heights, strict=True))
        step = -(-len(self.captions) // _MOST_CAPTIONS) or 1
        lengths, unit = _lengths(self.captions[::step])
        title = f"Caption length in {unit}" + (
            f", every {_ORDINALS.get(step, f'{step}th')} caption" if step > 1 else ""
        )
        found = (
            chart("width", "Width in pixels", self.widths),
            chart("height", "Height in pixels", self.heights),
            chart("megapixels", "Megapixels", [width * height / 1e6 for width, height in sides]),
            chart("aspect", "Width / height", [width / height for width, height in sides]),
            chart("caption", title, lengths, marks=[CONTEXT], marked=f"{CONTEXT}, where CLIP cuts")
            if unit == "tokens"
            else chart("caption", title, lengths),
        )
        yield from (each for each in found if each is not None)


def look(shards: Sequence[ShardEvidence], most: int = MOST_SAMPLES) -> Look:
    """Look at the first samples of each shard on this machine, ``most`` in all."""
    found = Look()
    near = [shard for shard in shards if shard.error is None and local_file(shard.url) is not None]
    named = caption_name(shards)
    for number, shard in enumerate(near):
        share = (most - found.samples) // (len(near) - number)
        before = found.samples
        for sample in islice(samples_of(shard.url), share):
            _note(sample, named[0] if named else None, found)
        found.shards += 1
        found.whole = found.whole and found.samples - before >= shard.samples
    found.whole = found.whole and len(near) == len(shards)
    return found


def _note(sample: FoundSample, name: str | None, found: Look) -> None:
    found.samples += 1
    image = image_field(sample.rows)
    header = read_header(sample.read(image, _HEAD)) if image is not None else None
    if header is not None and header.width and header.height:
        found.widths.append(header.width)
        found.heights.append(header.height)
        found.formats[header.format] += 1
    elif image is not None:
        found.formats["not an image"] += 1
    if "txt" in sample.rows:
        found.captions.append(sample.read("txt", 8_192).decode("utf-8", "replace"))
    elif name is not None and (caption := caption_of(sample.read("json", LARGEST), (name,))):
        found.captions.append(caption)


def _lengths(captions: Sequence[str]) -> tuple[list[int], str]:
    """Return the lengths of captions, and their unit: tokens where OpenCLIP is installed, otherwise words."""
    count = _token_counter() if captions else None
    if count is None:
        return [len(caption.split()) for caption in captions], "words"
    return [count(caption) for caption in captions], "tokens"


@cache
def _token_counter() -> Callable[[str], int] | None:
    """Return a function from a caption to its CLIP tokens, or None without OpenCLIP, whose file alone is loaded."""
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).with_name("tokenizer.py")
    spec = importlib.util.spec_from_file_location("wdsflow_open_clip_tokenizer", path)
    if spec is None or spec.loader is None:
        return None
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        tokenizer = module.SimpleTokenizer()
    except (ImportError, AttributeError, OSError, gzip.BadGzipFile):
        return None
    return lambda caption: len(tokenizer.encode(caption)) + 2


def pictures(groups: Sequence[FindingGroup]) -> dict[str, list[SampleView]]:
    """Return some samples in which rules about fields and images found something, by the code of the rule."""
    wanted: dict[str, dict[int, list[str]]] = {}
    left = _PICTURES
    for group in groups:
        placed = [each for each in group.findings if each.shard is not None and each.offset is not None]
        for finding in placed[: min(_OF_ONE, left)] if group.code.startswith(_SAMPLE_RULES) else ():
            assert finding.shard is not None
            assert finding.offset is not None
            if local_file(finding.shard) is not None:
                wanted.setdefault(finding.shard, {}).setdefault(finding.offset, []).append(group.code)
                left -= 1
    found: dict[str, list[SampleView]] = {}
    for url, offsets in wanted.items():
        for offset, sample in samples_around(url, offsets):
            for code in offsets[offset]:
                found.setdefault(code, []).append(view(sample))
    return found
