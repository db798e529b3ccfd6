"""The ``load_dataset`` call of Hugging Face for a folder's shards.

Commands show it in their last lines.
"""

import glob
import json
from collections.abc import Iterable

from wdsflow.shards.shard_names import SUFFIXES


def load_call(folder: str, shards: Iterable[str]) -> str:
    """Return a call of ``load_dataset`` that loads all shards of a folder, and nothing else.

    >>> load_call("kept", ["00000.tar", "00001.tar"])
    'load_dataset("webdataset", data_files="kept/*.tar")'
    """
    escaped = glob.escape(folder.rstrip("/"))
    endings = sorted(
        {next((end for end in SUFFIXES if name.lower().endswith(end)), ".tar") for name in shards}
    )
    patterns = [f"{escaped}/*{ending}" for ending in endings]
    files = patterns[0] if len(patterns) == 1 else patterns
    return f'load_dataset("webdataset", data_files={json.dumps(files, ensure_ascii=False)})'
