"""Stanza's networks, loaded once per process and device. Nothing is downloaded."""

import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .stanza_files import DEPENDENCIES, INDEX

if TYPE_CHECKING:
    from stanza import Pipeline
    from stanza.models.common.foundation_cache import FoundationCache

_loaded: "WeakValueDictionary[tuple[object, ...], Pipeline]" = WeakValueDictionary()
# Two concurrent loads would take twice the memory.
loading_lock = threading.Lock()


def load_pipeline(files: Mapping[str, Path], lang: str, device: str, processors: str) -> "Pipeline":
    """Return a ``stanza.Pipeline`` of files, the same object as long as it is referenced.

    ``files``: see ``stanza_files``. Nothing is downloaded: a transformer must be in the user's hub
    folder.
    """
    paths = {name: str(path) for name, path in files.items()}
    key = (tuple(sorted(paths.items())), lang, device, processors)
    with loading_lock:
        pipeline = _loaded.get(key)
        if pipeline is None:
            pipeline = _load(paths, lang, device, processors)
            _loaded[key] = pipeline
        return pipeline


def _load(files: dict[str, str], lang: str, device: str, processors: str) -> "Pipeline":
    import stanza

    for path in files.values():
        if ";" in path:
            raise ValueError(f"Stanza takes {path!r} for several files: no name may have a ';'")
    if "ner" in processors:
        # Otherwise it looks them up in its index.
        files = {f"ner_{kind}_path": "" for kind in DEPENDENCIES} | files
    with tempfile.TemporaryDirectory(prefix="wdsflow-stanza-") as folder:
        # Not needed: all files are named.
        Path(folder, INDEX).write_text("{}", "utf-8")
        try:
            return stanza.Pipeline(
                lang=lang,
                dir=folder,
                processors=processors,
                package=None,
                allow_unknown_language=True,
                tokenize_pretokenized="tokenize_model_path" not in files,
                download_method=None,
                foundation_cache=_shared(device),
                device=device,
                verbose=False,
                **files,
            )
        except OSError as error:
            last_processor = processors.rpartition(",")[2]
            name = _transformer(files[f"{last_processor}_model_path"])
            if not name:
                raise
            raise ValueError(
                f"the transformer {name!r} is not in the hub's folder on this machine: {error}"
            ) from error


def _transformer(path: str) -> str | None:
    """Return the name of the transformer on which a network is based."""
    import torch

    network = torch.load(path, map_location="cpu", weights_only=True)
    name: str | None = network.get("config", {}).get("bert_model")
    return name


@cache
def _shared(device: str) -> "FoundationCache":  # noqa: ARG001 - networks move shared parts to their device
    """Return the cache of word vectors and language models that the networks of a device share."""
    from stanza.models.common.foundation_cache import FoundationCache

    return FoundationCache(local_files_only=True)
