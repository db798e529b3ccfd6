"""Which files of a folder are Stanza's models. Nothing is loaded, nothing downloaded."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..models.clip.clip_weights import local_path

_BESIDE = ("pretrain", "forward_charlm", "backward_charlm")  # what a tagger may need next to itself
_LANGUAGE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8})*")
_INDEX = "resources.json"


class StanzaFolder:
    """A folder as ``stanza.download(model_dir=...)`` leaves it: LANGUAGE/PROCESSOR/NAME.pt, and resources.json.

    The index says which files make a ``package``, and what a file needs next to itself. Without one, or where it does
    not know the language, a folder of a processor is to have one file. Raises ValueError.
    """

    def __init__(self, root: Path, lang: str, package: str) -> None:
        if not _LANGUAGE.fullmatch(lang):
            raise ValueError(f"{lang!r} is not a language code, such as 'en' or 'zh-hans'")
        index = _index(root)
        lang = index.get(lang, {}).get("alias", lang)
        self._about: Mapping[str, Any] = index.get(lang, {})
        self._root, self._package = root / lang, package

    def model(self, processor: str, *, optional: bool = False) -> Path | None:
        """Return the file of a processor ("tokenize", "mwt", "pos", "ner"); None if it may be missing and is."""
        packages = self._about.get("packages")
        if packages is None:
            return self._only(processor, optional=optional)
        if self._package not in packages:
            raise ValueError(f"{self._root}: no package {self._package!r}; there are {', '.join(sorted(packages))}")
        names = {**packages[self._package].get("optional", {}), **packages[self._package]}
        if processor not in names and optional:
            return None
        if processor not in names:
            raise ValueError(f"{self._root}: the package {self._package!r} has no model for {processor!r}")
        return self._file(processor, names[processor])

    def beside(self, processor: str, model: Path) -> dict[str, Path]:
        """Return what a processor's file needs, by kind: "pretrain", "forward_charlm", "backward_charlm"."""
        known = self._about.get(processor, {}).get(model.stem)
        if known is None:
            found = {kind: self._only(kind, optional=True) for kind in _BESIDE}
            return {kind: path for kind, path in found.items() if path is not None}
        return {each["model"]: self._file(each["model"], each["package"]) for each in known.get("dependencies", [])}

    def _file(self, kind: str, name: str) -> Path:
        path = self._root / kind / f"{name}.pt"
        if not path.is_file():
            raise ValueError(f"no such file: {path}")
        return path

    def _only(self, kind: str, *, optional: bool) -> Path | None:
        found = sorted((self._root / kind).glob("*.pt"))
        if len(found) == 1:
            return found[0]
        if not found and optional:
            return None
        if not found:
            raise ValueError(f"no such file: {self._root / kind / '*.pt'}")
        names = ", ".join(path.name for path in found)
        raise ValueError(f"{self._root / kind} has several files ({names}), and no {_INDEX} that says which to take")


def stanza_files(
    processor: str, *, model: str, lang: str, package: str, tokenizer: str, pretokenized: bool
) -> dict[str, Path]:
    """Return files by Stanza's names for them: {"pos_model_path": ..., "pos_pretrain_path": ..., ...}.

    ``model`` is a folder of Stanza's models, or a file: the processor's own. A file that is in such a folder, as
    LANGUAGE/PROCESSOR/NAME.pt, finds the others there. ``tokenizer``: a file instead of the folder's. Raises ValueError
    if a file is missing; it names the file.
    """
    path = local_path(model)
    if path is None:
        raise ValueError(f"no such file or folder: {model!r}")
    if path.is_dir():
        folder: StanzaFolder | None = StanzaFolder(path, lang, package)
    else:
        inside = path.absolute().parts[-3:-1] == (lang, processor)
        folder = StanzaFolder(path.absolute().parents[2], lang, package) if inside else None
    found: dict[str, Path] = {}
    if not pretokenized:
        found["tokenize_model_path"] = _tokenizer(tokenizer, folder)
        found |= _beside("tokenize", found["tokenize_model_path"], folder)
        expander = folder.model("mwt", optional=True) if folder else None
        if expander:
            found["mwt_model_path"] = expander
    own = path if folder is None or path.is_file() else folder.model(processor)
    assert own is not None
    found[f"{processor}_model_path"] = own
    return found | _beside(processor, own, folder)


def _tokenizer(given: str, folder: StanzaFolder | None) -> Path:
    path = local_path(given)
    if path is None and given:
        raise ValueError(f"no such file: {given!r}")
    if path is None and folder:
        path = folder.model("tokenize")
    if path is None:
        raise ValueError("a tagger in a file also needs tokenizer='FILE', or pretokenized=true")
    return path


def _beside(processor: str, model: Path, folder: StanzaFolder | None) -> dict[str, Path]:
    return (
        {f"{processor}_{kind}_path": path for kind, path in folder.beside(processor, model).items()} if folder else {}
    )


def _index(root: Path) -> dict[str, Any]:
    path = root / _INDEX
    if not path.is_file():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, mtime: int, size: int) -> dict[str, Any]:  # noqa: ARG001 - the state is part of the cache's key
    try:
        index = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(index, dict):
        raise ValueError(f"{path} is not an object of languages")  # noqa: TRY004 - of a file, not of an argument
    return index
