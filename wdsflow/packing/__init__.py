"""Shards from a table, or from a folder of files: one sample for each row.

==================
==================================================================================================
``pack_options``    the arguments of ``pack_shards``
``row_sources``     the rows of a table in a file, of any kind
``layouts``         which columns hold images and captions: named by the user, or known
(Data-Juicer, LLaVA, ...) ``folder_rows``     the rows of a folder, or of a zip, that has no table
``media_files``     the files that rows name; ``local_files``, ``zip_files``, ``remote_files`` and
``stored_bytes``
                    (from cells) read them
``folder_names``    names of folders by which readers find no shards
``safe_paths``      names that stay below a root, and faults of files
``keys``            keys that all readers accept
``read_rows``       the first pass over all tables and folders
``plan``            what is known after it: which rows become samples, in which order, in which
shard ``stored_rows``     its rows, in files of the run
``pack_workers``    threads, and processes if there are many rows, that write shards
``write_shard``     the second pass: one shard, from the files that the plan names
``left_out``        rows that become no sample, in files
``pack_record``     which shards are done, and the rows that each left out
``run_pack``        both passes, and the record of the run
==================
==================================================================================================

The first pass reads tables, and asks for the size of each local file. It leaves out rows without a
usable value, and those whose file is missing, before shards are cut. The second reads each file
once: if it is not an image, its row is left out there, and the shard has one sample less.
"""

from typing import TYPE_CHECKING

from wdsflow.lazy import lazy_names

__all__ = ["PackReport", "pack_shards"]

if TYPE_CHECKING:
    from .pack_report import PackReport
    from .run_pack import pack_shards
else:
    __getattr__ = lazy_names(__name__, {"PackReport": "pack_report", "pack_shards": "run_pack"})
