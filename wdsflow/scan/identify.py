"""Which bytes a shard has: hashed while it is scanned, or alone."""

import time

from wdsflow.shards.shard_identity import Identity, stored
from wdsflow.shards.source.base import SourceChangedError, SourceError, local_path
from wdsflow.shards.source.digest import Digest
from wdsflow.shards.source.opening import open_source

from .evidence import ShardEvidence
from .scan_options import ScanOptions


class Identifying:
    """Hashes one shard: a local one at once, another while its ``digest`` is fed. Raises SourceError."""

    def __init__(self, url: str) -> None:
        if url.startswith("pipe:"):
            raise SourceError("refused", "the output of a command has no identity")
        self._url, self.digest = url, Digest()
        self._before = stored(url)
        self._path = local_path(url)
        if self._path is not None:
            self.digest.of_file(self._path)

    def done(self) -> Identity:
        """Return which bytes were hashed, those included that nobody else has read. Raises SourceError."""
        value = self.digest.finish()
        after = stored(self._url)
        if self._before != after or after.size not in (None, self.digest.size):
            raise SourceChangedError
        return Identity(self.digest.size, value, after.mark)


def identify_shard(url: str, _: ScanOptions) -> ShardEvidence:
    """Hash one shard, and look at nothing else. What is wrong with it is in the evidence."""
    start = time.perf_counter()
    shard = ShardEvidence(url)
    try:
        identifying = Identifying(url)
        if local_path(url) is not None:
            shard.identity = identifying.done()
        else:
            with open_source(url, digest=identifying.digest):
                shard.identity = identifying.done()
        shard.size = shard.bytes_read = shard.identity.size
    except SourceError as error:
        shard.fail(error.kind, error.detail, fix=error.fix)
    shard.seconds = time.perf_counter() - start
    return shard
