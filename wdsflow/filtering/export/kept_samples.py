"""The samples that a run has kept, and what is in their json."""

from collections.abc import Iterator

from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.records.working_folder import store_of
from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.opening import open_source


def kept_samples(layout: Layout, record: ShardRecord) -> Iterator[tuple[TarSample, Samples]]:
    """Yield the kept samples of a shard, from the shard that was written."""
    if record.output is None:
        return
    store = store_of(layout.folder)
    path = layout.tar(record.name)
    written = Shard.url(store.url_of(path)) if store else Shard.file(str(path))
    with open_source(written) as source:
        samples = Samples(source, contents=True)
        for sample in samples:
            yield sample, samples


def json_of(sample: TarSample, samples: Samples) -> dict[str, object]:
    """Return the object in a sample's json.

    Empty if there is no json, or if it is damaged or something else.
    """
    row = sample.fields.get("json")
    if row is None:
        return {}
    try:
        tree = parse_json(samples.read(row))
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}
