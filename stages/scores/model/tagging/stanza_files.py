"""The files of Stanza's models, in a folder that Stanza wrote or as single files.

Nothing is downloaded.
"""

import json
import re
from pathlib import Path
from typing import Any

from ..model_files import local_path, while_unchanged

# What the networks of a tagger may need, by Stanza's names.
DEPENDENCIES = ("pretrain", "forward_charlm", "backward_charlm")
_LANGUAGE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8})*")
INDEX = "resources.json"


class StanzaFolder:
    """A folder that ``stanza.download(model_dir=...)`` wrote.

    Its files are LANGUAGE/PROCESSOR/NAME.pt, and its index is resources.json.

    The index lists the files of a ``package`` and the dependencies of a file. Without an index, or
    if it lacks the language, the folder of a processor must have exactly one file. Raises
    ValueError.
    """

    def __init__(self, root: Path, lang: str, package: str) -> None:
        if not _LANGUAGE.fullmatch(lang):
            raise ValueError(f"{lang!r} is not a language code, such as 'en' or 'zh-hans'")
        path = root / INDEX
        index = _read(path) if path.is_file() else {}
        lang = index.get(lang, {}).get("alias", lang)
        self._entry: Any = index.get(lang, {})
        self._root = root / lang
        self._package = package

    def model(self, processor: str, *, optional: bool = False) -> Path | None:
        """Return the file of a processor ("tokenize", "mwt", "pos", "ner").

        None if it is missing and ``optional``.
        """
        packages = self._entry.get("packages")
        if packages is None:
            return self._only(processor, optional=optional)
        if self._package not in packages:
            raise ValueError(
                f"{self._root}: no package {self._package!r}; there are {', '.join(sorted(packages))}"
            )
        names = {**packages[self._package].get("optional", {}), **packages[self._package]}
        if processor not in names and optional:
            return None
        if processor not in names:
            raise ValueError(
                f"{self._root}: the package {self._package!r} has no model for {processor!r}"
            )
        return self._file(processor, names[processor])

    def dependencies(self, processor: str, model: Path) -> dict[str, Path]:
        """Return the dependencies of a processor's file, by kind.

        Kinds are "pretrain", "forward_charlm" and "backward_charlm".
        """
        entry = self._entry.get(processor, {}).get(model.stem)
        files: dict[str, Path] = {}
        if entry is None:
            for kind in DEPENDENCIES:
                path = self._only(kind, optional=True)
                if path is not None:
                    files[kind] = path
            return files
        for dependency in entry.get("dependencies", []):
            kind = dependency["model"]
            files[kind] = self._file(kind, dependency["package"])
        return files

    def _file(self, kind: str, name: str) -> Path:
        path = self._root / kind / f"{name}.pt"
        if not path.is_file():
            raise ValueError(f"no such file: {path}")
        return path

    def _only(self, kind: str, *, optional: bool) -> Path | None:
        """Return the only file of a kind; None if it is missing and ``optional``."""
        paths = sorted((self._root / kind).glob("*.pt"))
        if len(paths) == 1:
            return paths[0]
        if not paths and optional:
            return None
        if not paths:
            raise ValueError(f"no such file: {self._root / kind / '*.pt'}")
        names = ", ".join(path.name for path in paths)
        raise ValueError(
            f"{self._root / kind} has several files ({names}), and no {INDEX} that says which to take"
        )


def stanza_files(
    processor: str, model: str, lang: str, package: str, tokenizer: str, pretokenized: bool
) -> dict[str, Path]:
    """Return the files of a processor, by Stanza's names for them.

    For example {"pos_model_path": ..., "pos_pretrain_path": ..., ...}.

    ``model`` is a folder of Stanza's models, or the file of the processor. If the file is in such a
    folder, as LANGUAGE/PROCESSOR/NAME.pt, the others are taken from there. ``tokenizer``: a file
    instead of the folder's. Raises ValueError that names a missing file.
    """
    path = local_path(model)
    if path is None:
        raise ValueError(f"no such file or folder: {model!r}")
    if path.is_dir():
        folder: StanzaFolder | None = StanzaFolder(path, lang, package)
    else:
        is_in_folder = path.absolute().parts[-3:-1] == (lang, processor)
        folder = StanzaFolder(path.absolute().parents[2], lang, package) if is_in_folder else None
    files: dict[str, Path] = {}
    if not pretokenized:
        files |= _with_dependencies("tokenize", _tokenizer_file(tokenizer, folder), folder)
        expander = None if folder is None else folder.model("mwt", optional=True)
        if expander is not None:
            files["mwt_model_path"] = expander
    tagger = path
    if folder is not None and path.is_dir():
        tagger = _required(folder.model(processor))
    return files | _with_dependencies(processor, tagger, folder)


def _tokenizer_file(tokenizer: str, folder: StanzaFolder | None) -> Path:
    """Return the file of the setting ``tokenizer``, or that of the folder. Raises ValueError."""
    path = local_path(tokenizer)
    if path is not None:
        return path
    if tokenizer:
        raise ValueError(f"no such file: {tokenizer!r}")
    if folder is None:
        raise ValueError("a tagger in a file also needs tokenizer='FILE', or pretokenized=true")
    return _required(folder.model("tokenize"))


def _required(path: Path | None) -> Path:
    # Only optional models may be missing.
    assert path is not None
    return path


def _with_dependencies(processor: str, model: Path, folder: StanzaFolder | None) -> dict[str, Path]:
    """Return the file of a processor and its dependencies, by Stanza's names."""
    files = {f"{processor}_model_path": model}
    if folder is not None:
        for kind, path in folder.dependencies(processor, model).items():
            files[f"{processor}_{kind}_path"] = path
    return files


@while_unchanged
def _read(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(index, dict):
        raise ValueError(f"{path} is not an object of languages")  # noqa: TRY004 - of a file, not of an argument
    return index
