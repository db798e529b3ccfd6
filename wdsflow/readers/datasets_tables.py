"""Hugging Face datasets without streaming: shards become Arrow tables first."""

from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence

from .base import Fate
from .datasets import Datasets


class DatasetsTables(Datasets):
    """Hugging Face ``load_dataset("webdataset", ...)`` without streaming, read to its end.

    The full call is ``load_dataset("webdataset", data_files=[...], split="train")``.

    All shards are written to Arrow tables first: an error in any shard ends ``load_dataset``
    itself, and no row comes out. Images are decoded when a row is read. Tables are stricter than
    Python: an integer of more than 64 bits, text that is not Unicode, a value in a column that had
    only null, and a list of unlike values raise; so does any name that is not UTF-8.

    Cannot be known here, so that the verdict is not exact: what is not known of streaming; arrays
    (npy, npz) of several types, because Arrow refuses some mixtures within the 100 rows that are
    written together. Not looked at: whether the disk has room for the tables, which hold the
    contents of all shards.

    Source: datasets 5.2, packaged_modules/webdataset/webdataset.py, builder.py, arrow_writer.py.
    """

    name = "datasets-tables"
    title = "Hugging Face datasets as tables (not streaming)"
    writes_tables = True

    def preparing_reader(self, shards: Sequence[ShardEvidence]) -> Datasets:
        """Return the pass that writes the tables; it decodes no image."""
        writing = _Writing(self.options)
        writing.decodes_images = False
        return writing

    def why_uncertain(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of columns, or which column has arrays of several types."""
        for shard in shards:
            mixed = shard.tally("column.other-type")
            if mixed.count:
                return f"whether the arrays in {mixed.detail} can be written depends on which rows are written together"
        return super().why_uncertain(shards)


class _Writing(DatasetsTables):
    """The pass over all shards that writes tables."""

    def preparing_reader(self, shards: Sequence[ShardEvidence]) -> None:  # type: ignore[override]
        """Return None: this is the preparation."""

    def crash_at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of a value or a name that cannot be written."""
        unwritable = shard.tally("column.unwritable")
        if unwritable.count:
            return Fate("crash", "batch", "table", unwritable.detail.partition(": ")[0])
        foreign = shard.tally("name.not-utf8")
        if foreign.key is None:
            return None
        return Fate("crash", "batch", "not-utf8-name", foreign.key)
