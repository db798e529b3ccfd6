"""Energon's index of shards: ``NAME.tar.idx`` for each, and the folder ``.nv-meta`` about all."""

import os
import sys
from array import array
from collections.abc import Mapping
from contextlib import ExitStack
from uuid import NAMESPACE_URL, uuid5

import yaml

from wdsflow.readers.energon_dataset import captioning
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .count_files import Shards, as_json, splits_of
from .energon_database import CannotIndex, EnergonDatabase
from .index_record import IndexRecord
from .sample_rows import SampleRows
from .shard_pass import ShardContents, ShardFacts

NV_META = ".nv-meta"
NV_INFO = f"{NV_META}/.info.json"
NV_SQLITE = f"{NV_META}/index.sqlite"
_NV_UUID, _NV_SPLIT, _NV_DATASET = (
    f"{NV_META}/index.uuid",
    f"{NV_META}/split.yaml",
    f"{NV_META}/dataset.yaml",
)


def tar_index(shard: str) -> str:
    """Return the name of Energon's index of a shard.

    >>> tar_index("a.b-000.tar")
    'a.b-000.tar.idx'
    """
    return f"{os.path.splitext(shard)[0]}.tar.idx"


class EnergonFiles:
    """Writes Energon's files for the shards of one folder.

    The finished ``.nv-meta`` folder describes all shards of the folder; otherwise it is left
    unfinished.
    """

    def __init__(self, record: IndexRecord) -> None:
        self._record, self._report = record, record.report
        self._database: EnergonDatabase | None = None
        # Each shard has an index, and no key occurs twice.
        self._is_complete = True

    def open_database(self, stack: ExitStack) -> None:
        """Begin a new database, which needs the samples of all shards."""
        self._database = stack.enter_context(EnergonDatabase(self._record.folder / NV_SQLITE))

    def remove_old_database(self, of: Mapping[str, object]) -> None:
        """Remove a database that an earlier run wrote, if it is of other shards. Raises OSError."""
        if not self._record.is_made_from(NV_SQLITE, of):
            self._record.unlink(NV_SQLITE)

    def add(
        self,
        number: int,
        name: str,
        identity: Mapping[str, object],
        facts: ShardFacts,
        contents: ShardContents,
    ) -> None:
        """Write the index of a shard, and add its samples to the database. Raises OSError.

        Args:
            number: its place among all shards.
            name: the shard, without folder.
            identity: of the shard.
            facts: from the pass over the shard.
            contents: from the same pass.
        """
        try:
            index = _offsets(facts, contents)
        except CannotIndex as error:
            self._leave_out(tar_index(name), error)
            self._add_samples(number, None)
            return
        self._record.write_file(tar_index(name), index, identity)
        self._add_samples(number, contents.rows)

    def skip(self, number: int) -> None:
        """Leave a damaged shard out of the database. Raises OSError."""
        self._add_samples(number, None)

    def finish(self, shards: Shards, numbers: Mapping[str, int], of: Mapping[str, object]) -> None:
        """Write the files about all indexed shards, unless one has no index. Raises OSError.

        Args:
            shards: the indexed ones.
            numbers: the place of each shard among all.
            of: identity of the set of shards.
        """
        if not self._is_complete:
            return
        record = self._record
        if self._database is not None:
            self._database.commit([numbers[name] for name in shards])
            record.note(NV_SQLITE, of)
        counts = {name: facts.by_energon for name, facts in shards.items()}
        record.write_file(NV_INFO, as_json({"energon_version": None, "shard_counts": counts}), of)
        # Changes with the shards.
        record.write_file(_NV_UUID, str(uuid5(NAMESPACE_URL, str(of["shards"]))).encode(), of)
        for name, data in _settings(shards).items():
            # Users edit these files: they are written only if
            # they do not exist, or are as they were written.
            if record.may_replace(name):
                record.write_file(name, data, of)
            elif (record.folder / name).read_bytes() != data:
                self._report.settings.append(str(record.folder / name))

    def _add_samples(self, number: int, rows: SampleRows | None) -> None:
        """Add the rows of a shard to the database, and those of later shards that waited for it."""
        if self._database is None:
            return
        try:
            self._database.add(number, rows)
        except CannotIndex as error:
            self._leave_out(NV_SQLITE, error)
            self._database = None

    def _leave_out(self, file: str, why: CannotIndex) -> None:
        self._is_complete = False
        self._report.lacking.append((str(self._record.folder / file), str(why)))


def _offsets(facts: ShardFacts, contents: ShardContents) -> bytes:
    """Return the index of a shard: the offset of each sample, and of the end of the last one.

    Raises CannotIndex.
    """
    if facts.obstacle:
        raise CannotIndex(facts.obstacle)
    if not contents.starts:
        raise CannotIndex("it has no samples, and such an index cannot be empty")
    offsets = array("Q", contents.starts)
    offsets.append(contents.end)
    if sys.byteorder == "big":
        offsets.byteswap()
    return offsets.tobytes()


def _settings(shards: Shards) -> dict[str, bytes]:
    """Return the files that say which shards are for training, and what their fields are."""
    splits = splits_of(shards)
    parts = {
        "train": splits.get("train", []),
        "val": splits.get("validation", []),
        "test": splits.get("test", []),
    }
    return {
        _NV_SPLIT: _yaml({"split_parts": parts, "exclude": []}),
        _NV_DATASET: _yaml(_dataset(shards)),
    }


def _dataset(shards: Shards) -> Mapping[str, object]:
    """Return Energon's settings for the samples: images with captions, or no conversion."""
    fields = set().union(*(facts.fields for facts in shards.values()))
    images = [name for name in IMAGE_FIELDS if name in fields]
    if not images or "txt" not in fields:
        return {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
    return captioning(images, ["txt"])


def _yaml(value: object) -> bytes:
    return yaml.safe_dump(value, sort_keys=False).encode()
