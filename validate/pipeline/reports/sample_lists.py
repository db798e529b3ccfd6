"""The samples that one process lists.

They are those that entered its stages, and those that came out of the pipeline.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from wdsflow.shards.source.base import shown_url

from ..values.elements import keys_in, may_be_batch
from ..values.rows import row_of_sample, rows_of_batch
from ..values.sample_contents import content_of
from .run_lists import MOST_CONTENTS, RunList


class SampleLists:
    """The lists of one process.

    Args:
        folder: of the run.
        process: a name for its files.
        keys: of the samples in the shards.
    """

    def __init__(self, folder: Path, process: str, keys: Collection[str]) -> None:
        # Elements that came out, in which no key of a sample is visible.
        self.without_key = 0
        # Of these, elements that may hold several samples.
        self.possible_batches = 0
        self._keys = keys
        self._entered = RunList(folder, process, "entered")
        self._items = RunList(folder, process, "items")
        self._delivered = RunList(folder, process, "delivered")
        self._rows = RunList(folder, process, "rows")
        # Shard and key of the samples whose content is listed.
        self._with_content = set[tuple[str, str]]()

    def add_entered(self, sample: Mapping[object, object]) -> None:
        """List a sample that is read, with its content if that is not listed yet."""
        shard = _shard_of(sample)
        key = str(sample["__key__"])
        if (shard, key) in self._with_content or len(self._with_content) >= MOST_CONTENTS:
            self._entered.add([shard, key])
            return
        self._with_content.add((shard, key))
        self._entered.add([shard, key, content_of(sample)])

    def add_item(self, name: str) -> None:
        """List an item of a map-style dataset that was read."""
        self._items.add(["", name])

    def add_delivered(self, item: object, *, is_batch: bool, samples: int | None) -> None:
        """List an element that the user's code would get.

        Its keys and the contents of its samples are listed.

        Args:
            item: the element.
            is_batch: whether it certainly is a batch.
            samples: in a batch; None if that is unclear.
        """
        keys = keys_in(item, self._keys)
        shard = _shard_of(item) if isinstance(item, dict) else ""
        for key in keys:
            self._delivered.add([shard, key])
        if not keys:
            self.without_key += 1
            self.possible_batches += may_be_batch(item)
        if not is_batch:
            self._rows.add(row_of_sample(item, self._keys))
        elif samples is not None:
            for row in rows_of_batch(item, samples, self._keys):
                self._rows.add(row)


def _shard_of(sample: Mapping[object, object]) -> str:
    """Return the url of the shard of a sample without its secrets, "" if the sample has none."""
    url = sample.get("__url__")
    return shown_url(url) if isinstance(url, str) else ""
