"""The shards that a loader is run over.

A small set is used as it is. Otherwise they are copies of a few of its samples.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.shard import Shard
from wdsflow.text.words import how_many

from ..sample_copies import TAR_END, SampleLocation, SmallTars, numbered_keys, renamed
from ..user_code.load_pipeline import PipelineError
from .loader_messages import LoaderRequest

# A set of this size at most is read as it is.
_MOST_BYTES, _MOST_SAMPLES = 64 << 20, 1000
# Shards with copies otherwise, and samples in each of them;
# MORE_SAMPLES, if fewer make few batches.
_MOST_SHARDS = 8
FEWEST_SAMPLES, MORE_SAMPLES = 32, 256
# An epoch is ended after the shards were read so often, but not before so many samples.
_MOST_PASSES, _LEAST_LIMIT = 4, 500
# The sample of which shards of equal samples are made: the first is often odd.
_CLONED = 3
# Shards of equal samples, and samples in each of them, at least.
_CLONE_SHARDS, _LEAST_CLONES = 4, 16
# Between the first keys of two of these shards.
_KEY_STEP = 1000


class LoaderShards(NamedTuple):
    """Shards that a loader reads in seconds, in the order of its request."""

    urls: list[str]
    # Of each shard.
    samples: list[list[SampleLocation]]
    are_copies: bool

    @property
    def request(self) -> LoaderRequest:
        """The request for a run over these shards."""
        shard_keys: list[tuple[str, ...]] = []
        keys: list[str] = []
        for samples in self.samples:
            of_shard = tuple(sample.key for sample in samples)
            shard_keys.append(of_shard)
            keys += of_shard
        return LoaderRequest(
            tuple(self.urls),
            most_samples=_MOST_PASSES * max(_LEAST_LIMIT, len(keys)),
            keys=frozenset(keys),
            shard_keys=tuple(shard_keys),
            unique_keys=len(set(keys)) == len(keys),
        )

    @property
    def note(self) -> str:
        """A note for the report on the copies."""
        samples = how_many(sum(map(len, self.samples)), "sample")
        return (
            f"the loader was run over copies of {samples} from {how_many(len(self.urls), 'shard')}"
        )


def shards_to_read(evidence: Evidence, tars: SmallTars, samples_of_shard: int) -> LoaderShards:
    """Return all shards of a small set, otherwise copies of the first samples of the first shards.

    Args:
        evidence: of the scan of all shards.
        tars: writes the copies.
        samples_of_shard: copied from each shard.
    """
    shards = [shard for shard in evidence.shards if shard.error is None]
    is_local = all(shard.url.path is not None for shard in shards)
    # A shard of unknown size may be large.
    size = sum(shard.size or _MOST_BYTES + 1 for shard in shards)
    if is_local and size <= _MOST_BYTES and evidence.samples <= _MOST_SAMPLES:
        samples = [tars.locations_in(shard.url) for shard in shards]
        return LoaderShards([shard.url for shard in shards], samples, are_copies=False)
    return _copied(shards[:_MOST_SHARDS], tars, samples_of_shard)


def _copied(
    shards: Sequence[ShardEvidence], tars: SmallTars, samples_of_shard: int
) -> LoaderShards:
    """Return copies of the first samples of shards; those that cannot be read are left out."""
    copies = LoaderShards([], [], are_copies=True)
    for shard in shards:
        samples = tars.first_in(shard.url, samples_of_shard)
        url = tars.tar(*samples) if samples else None
        if url is not None:
            copies.urls.append(url)
            copies.samples.append(samples)
    return copies


def clone_urls(url: str, tars: SmallTars, largest_item: int) -> tuple[str, ...]:
    """Return shards whose samples are copies of one sample under other keys.

    Args:
        url: of the shard with the sample.
        tars: writes the shards.
        largest_item: samples in the largest batch of the loader; each shard has enough for two.

    Raises:
        PipelineError: no sample of the shard can be copied.
    """
    samples = tars.first_in(Shard.from_text(url), _CLONED)
    members = tars.members(samples[-1]) if samples else []
    if not members:
        raise PipelineError(f"no sample of {url} can be copied: leave this shard out")
    count = max(_LEAST_CLONES, 2 * largest_item)
    urls = []
    for number in range(_CLONE_SHARDS):
        start = number * _KEY_STEP
        clones = [renamed(key, members) for key in numbered_keys(samples[-1].key, count, start)]
        urls.append(tars.write(b"".join(clones) + TAR_END, f"{start:06d}.tar"))
    return tuple(urls)
