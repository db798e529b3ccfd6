"""What readers make of single samples.

Each sample is scanned alone, as shards are, and the readers report its fate.
"""

from collections.abc import Sequence

from wdsflow.pieces.view_source import view_of
from wdsflow.readers import scan_options
from wdsflow.readers.base import Fate, Reader
from wdsflow.readers.datasets_columns import EXAMPLES
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.tar_header import padded
from wdsflow.text.words import how_many

from ..verdicts.wording import CRASHES, crash_text, loss_text
from .listed_samples import ListedSample, first_samples


class SampleFates:
    """Says of samples what each reader makes of them.

    A sample is judged as if nothing were wrong with its shard: what damage, neighbours of the same
    key and other shards do to it is in the report of ``wdsflow validate``.
    """

    def __init__(
        self, readers: Sequence[Reader], urls: Sequence[Shard], *, allow_pipe: bool
    ) -> None:
        self._options = scan_options("full", readers, urls, allow_pipe=allow_pipe)
        self._readers = list(readers)
        if any(reader.same_fields for reader in readers):
            # Their columns are the fields of the first samples.
            examples = first_samples(urls[0], EXAMPLES, allow_pipe=allow_pipe)
            names = ScanOptions("names", allow_pipe=allow_pipe)
            if examples:
                first = _scanned(urls[0], examples, names)
                self._readers = [reader.bound_to([first]) for reader in readers]

    def of(self, url: Shard, sample: ListedSample) -> dict[str, str]:
        """Return what each reader makes of a sample, in words, by the name of the reader."""
        evidence = _scanned(url, [sample], self._options)
        return {reader.name: _in_words(reader, evidence) for reader in self._readers}


def _scanned(url: Shard, samples: Sequence[ListedSample], options: ScanOptions) -> ShardEvidence:
    """Return the evidence of neighbouring samples, read as a tar of their own."""
    _, length, data = samples[-1].members[-1]
    part = samples[0].offset, data + padded(length)

    def view(source: Source) -> Source:
        return view_of(source, [part])

    return scan_shard(url, options, view=view)


def _in_words(reader: Reader, evidence: ShardEvidence) -> str:
    """Return what a reader makes of the only sample in some evidence."""
    if not reader.opens(evidence):
        return f"loses it: it is in one of the shards that {reader.unopened}"
    texts = []
    for run in reader.runs(evidence).shape_counts():
        texts += [_fate_text(reader, fate) for fate in reader.fates(run.shape)]
    if not texts:
        return "does not see it: its members are hidden"
    if len(texts) == 1:
        return texts[0]
    return f"makes {how_many(len(texts), 'sample')} of it: {'; '.join(texts)}"


def _fate_text(reader: Reader, fate: Fate) -> str:
    if fate.kind == "usable":
        return "takes it"
    if fate.reason in CRASHES:
        return crash_text(fate.reason, fate.detail)
    text = loss_text(fate.reason, fate.detail)
    if fate.kind == "crash":
        return f"raises an error: {text}"
    is_given = reader.gives_none and fate.reason.startswith("no-")
    return f"gives None for what it lacks: {text}" if is_given else f"loses it: {text}"
