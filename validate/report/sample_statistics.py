"""A second read of some samples, for histograms of a page: the scan itself keeps no sample."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from wdsflow.images.image_header import read_header
from wdsflow.pages.histograms import Chart, chart
from wdsflow.pages.page_samples import PageSample, image_field, samples_of
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.caption_field import LARGEST, caption_of
from wdsflow.stages.scores.model.clip.clip_words import clip_words

# Samples that are read, of all shards.
MOST_SAMPLES = 20_000
# Tokens of CLIP's text encoder, the two at the ends included.
CONTEXT = 77
# Captions whose tokens are counted.
_MOST_CAPTIONS = 5_000
_ORDINALS = {2: "2nd", 3: "3rd"}
# Of an image, which has its size, and of a caption.
_HEADER_BYTES, _CAPTION_BYTES = 64 << 10, 8_192


@dataclass(slots=True)
class SampleStatistics:
    """Statistics of the samples that were read."""

    samples: int = 0
    shards: int = 0
    # All samples of all shards were read.
    complete: bool = True
    # In pixels, of the images that have both.
    widths: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    # Name of the format -> images.
    formats: Counter[str] = field(default_factory=Counter)
    captions: list[str] = field(default_factory=list)

    def charts(self) -> Iterator[Chart]:
        """Yield the histograms that are not empty."""
        megapixels = []
        aspects = []
        for width, height in zip(self.widths, self.heights, strict=True):
            megapixels.append(width * height / 1e6)
            aspects.append(width / height)
        charts = (
            chart("width", "Width in pixels", self.widths),
            chart("height", "Height in pixels", self.heights),
            chart("megapixels", "Megapixels", megapixels),
            chart("aspect", "Width / height", aspects),
            self._caption_chart(),
        )
        for histogram in charts:
            if histogram is not None:
                yield histogram

    def _caption_chart(self) -> Chart | None:
        """Return the histogram of caption lengths: in tokens, or in words without OpenCLIP."""
        step = 1
        if self.captions:
            # Rounded up.
            step = -(-len(self.captions) // _MOST_CAPTIONS)
        every = f", every {_ORDINALS.get(step, f'{step}th')} caption" if step > 1 else ""
        captions = self.captions[::step]
        clip = clip_words() if captions else None
        if clip is None:
            words = [len(caption.split()) for caption in captions]
            return chart("caption", f"Caption length in words{every}", words)
        tokens = [len(clip.tokens(caption, sys.maxsize)) for caption in captions]
        title = f"Caption length in tokens{every}"
        return chart(
            "caption", title, tokens, marks=[CONTEXT], marked=f"{CONTEXT}, where CLIP cuts"
        )


def read_statistics(shards: Sequence[ShardEvidence], most: int = MOST_SAMPLES) -> SampleStatistics:
    """Read the first samples of each shard on this machine, ``most`` in total."""
    statistics = SampleStatistics()
    local_shards = [shard for shard in shards if shard.error is None and shard.url.path is not None]
    statistics.complete = len(local_shards) == len(shards)
    names = caption_name(shards)
    json_name = names[0] if names else None
    for number, shard in enumerate(local_shards):
        # What small shards leave is for the next ones.
        share = (most - statistics.samples) // (len(local_shards) - number)
        samples_before = statistics.samples
        for sample in islice(samples_of(shard.url), share):
            _add_sample(statistics, sample, json_name)
        statistics.shards += 1
        if statistics.samples - samples_before < shard.samples:
            statistics.complete = False
    return statistics


def _add_sample(statistics: SampleStatistics, sample: PageSample, json_name: str | None) -> None:
    """Add a sample; ``json_name``: of the captions in its JSON, None if there are none."""
    statistics.samples += 1
    image = image_field(sample.rows)
    if image is not None:
        header = read_header(sample.read(image, _HEADER_BYTES))
        if header is not None and header.width and header.height:
            statistics.widths.append(header.width)
            statistics.heights.append(header.height)
            statistics.formats[header.format] += 1
        else:
            statistics.formats["not an image"] += 1
    if "txt" in sample.rows:
        statistics.captions.append(sample.read("txt", _CAPTION_BYTES).decode("utf-8", "replace"))
    elif json_name is not None:
        caption = caption_of(sample.read("json", LARGEST), (json_name,))
        if caption:
            statistics.captions.append(caption)
