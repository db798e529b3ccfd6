"""The manifest of shards: hash, size, samples and fields of each."""

from collections.abc import Sequence
from pathlib import Path

from wdsflow.shards.identities.certificate import Certificate, ShardFields
from wdsflow.shards.identities.shard_listing import is_whole
from wdsflow.shards.identities.shard_names import plain_url, shared_folder, stored_folder

from .shard_pass import ShardFacts


def manifest_of(shards: Sequence[ShardFacts], file: Path) -> Certificate:
    """Return the manifest of shards that were hashed.

    Args:
        shards: at least one.
        file: path of the manifest; if shards are below its folder, or the other way round, both can be moved together.
    """
    urls = [plain_url(facts.url) for facts in shards]
    folder = shared_folder(urls)
    named = {url.removeprefix(folder): facts for url, facts in zip(urls, shards, strict=True)}
    identities = {name: facts.identity for name, facts in named.items() if facts.identity is not None}
    contents = {name: ShardFields(facts.samples, facts.fields) for name, facts in named.items()}
    samples, size = (sum(getattr(facts, what) for facts in shards) for what in ("samples", "size"))
    about = {"samples": samples, "bytes": size}
    return Certificate(stored_folder(folder, str(file)), identities, about, is_whole(folder, identities), contents)
