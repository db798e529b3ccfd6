"""A list of the kept samples in the format that the name of its file asks for."""

from collections.abc import Callable, Sequence
from pathlib import Path

from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.atomic import create_temporary, discard_temporary, remove_stale_files

from .embedding_matrix import embedding_kind, write_embeddings
from .img2dataset_table import write_table
from .key_lists import write_keys, write_uids
from .reference_list import write_reference_list


def check_export(path: Path) -> Callable[[Layout, Sequence[ShardRecord], Path], int]:
    """Return the function that writes a file of this name, by its extension.

    Raises ValueError if the extension is unknown, and OSError.
    """
    writers = {
        ".txt": write_keys,
        ".npy": write_uids,
        ".parquet": write_table,
        ".npz": write_reference_list,
    }
    if path.suffix not in writers:
        raise ValueError(
            f"{path}: lists end in .txt (keys), .npy (DataComp's uids; stored embeddings if the name ends in "
            "image_embeddings.npy or caption_embeddings.npy), .parquet (img2dataset's columns) or .npz (a list of "
            "images for --near: hashes, or embeddings if the name ends in embeddings.npz)"
        )
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder {path.absolute().parent} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file for the list")
    discard_temporary(*create_temporary(path))
    return write_embeddings if embedding_kind(path) else writers[path.suffix]


def export(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a list of the kept samples in one step, and return their number.

    ``.txt``: one key per line. ``.npy``: the uids of the samples' json as DataComp's resharder
    takes them, sorted pairs of unsigned 64-bit numbers. ``...image_embeddings.npy``,
    ``...caption_embeddings.npy``: a matrix of half floats, with the keys in a ``.txt`` next to it.
    ``.parquet``: key, shard, and img2dataset's columns from the samples' json. ``.npz``: a list of
    images for ``--near``, ``...embeddings.npz`` of embeddings, any other of hashes. Raises
    ValueError if samples lack a required value, OSError if the disk fails.
    """
    write = check_export(path)
    remove_stale_files(path.absolute().parent)
    return write(layout, records, path)
