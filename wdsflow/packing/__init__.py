"""Shards from a table, or from a folder of files: one sample for each row.

``rows`` is the first pass. It reads tables, and asks for the size of each local file. It leaves out
rows without a usable value, and those whose file is missing, before shards are cut. ``shard`` is
the second pass. It reads each file once: if it is not an image, its row is left out there, and the
shard has one sample less. ``files`` has the files that rows name. ``run_pack`` runs both passes, in
a folder with a record.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["PackReport", "pack_shards"]

if TYPE_CHECKING:
    from .pack_report import PackReport
    from .run_pack import pack_shards
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"PackReport": "pack_report", "pack_shards": "run_pack"}
    )
