"""Metadata of shards in the Croissant format, https://docs.mlcommons.org/croissant: JSON-LD on tars and their fields."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.certificate import CertificateError, stored_folder
from wdsflow.shards.source.base import local_path
from wdsflow.text.words import how_many, listed, size

from ..inspect.overview import Overview, overview
from ..report.as_json import clean
from .certify import identities

_TERMS = """citeAs column conformsTo cr rai data dataType dct equivalentProperty examples extract field fileProperty fileObject
    fileSet format includes excludes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated
    replace samplingRate sc separator source subField transform"""
_OTHERS: dict[str, object] = {  # that are not cr:NAME
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
}
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{name: _OTHERS.get(name, f"cr:{name}") for name in _TERMS.split()},
}
# Also of compressed ones: mlcroissant reads no members of what is named after its compression.
_TAR = "application/x-tar"
_KINDS = {  # field -> its encoding, and the type of its contents where Croissant has one
    **{field: (f"image/{field}", "sc:ImageObject") for field in ("jpeg", "png", "webp", "gif", "tiff")},
    "jpg": ("image/jpeg", "sc:ImageObject"),
    "tif": ("image/tiff", "sc:ImageObject"),
    **dict.fromkeys(("txt", "text", "caption", "transcript", "cls"), ("text/plain", "sc:Text")),
    "json": ("application/json", "sc:Text"),
    "mp3": ("audio/mpeg", "sc:AudioObject"),
    **{field: (f"audio/{field}", "sc:AudioObject") for field in ("wav", "flac")},
    **{field: (f"video/{field}", "sc:VideoObject") for field in ("mp4", "webm")},
}
_NAMES = 10  # of json objects, in the description
_KEY = r"^((?:.*/)?[^/.]+)\..*$"  # webdataset's: the path up to the first dot of the file's name


def croissant(shards: Sequence[ShardEvidence], file: str | Path) -> str:
    """Return Croissant metadata as JSON-LD.

    Tars are named relative to the folder of ``file`` where a folder holds both. What is not a tar, such as a page of a web
    server under the name of a shard, is left out: ``not_tars`` names it.

    Args:
        shards: evidence of a scan that hashed them; where it read json, the description has its names.
        file: where the metadata will be.

    Raises:
        CertificateError: a shard was not read, or none is a tar.
    """
    identities(shards)
    others = set(not_tars(shards))
    shards = [shard for shard in shards if shard.url not in others]
    if not shards:
        raise CertificateError("no shard is a tar")
    folder, found = identities(shards)
    place = stored_folder(folder, os.fspath(file)).removeprefix("./")
    total = overview(shards)
    tars = [
        {
            "@type": "cr:FileObject",
            "@id": url,
            "name": url,
            "contentUrl": place + url,
            "contentSize": f"{identity.size} B",
            "encodingFormat": _TAR,
            "sha256": identity.sha256.hex(),
        }
        for url, identity in found.items()
    ]
    ids = [{"@id": url} for url in found]
    suffixes = _suffixes(shards)
    tree: dict[str, object] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": re.sub(r"[^\w.-]+", "-", folder.rstrip("/").rpartition("/")[2]).strip("-") or "shards",
        "description": f"{how_many(total.samples, 'sample')} in {how_many(len(found), 'WebDataset shard')}, {size(total.size)}",
        "dateModified": datetime.now(timezone.utc).date().isoformat(),
        "distribution": [*tars, *(_file_set(field, suffixes, ids) for field in suffixes)],
        "recordSet": [_record_set(field, total) for field in suffixes if _kind(field)[1]],
    }
    if local_path(folder) is None:
        tree["url"] = folder
    return json.dumps(clean(tree), indent=1) + "\n"


def not_tars(shards: Sequence[ShardEvidence]) -> list[str]:
    """Return the shards that are not tars, or empty files."""
    return [shard.url for shard in shards if shard.error in ("not-a-tar", "empty")]


def _suffixes(shards: Sequence[ShardEvidence]) -> dict[str, list[str]]:
    """Return for each field name in lower case those in the tars, the most frequent field first."""
    spelled: dict[str, set[str]] = {}
    for shard in shards:
        for suffix in {part.suffix for shape in shard.runs.shapes() for part in shape}:
            spelled.setdefault(suffix.lower(), set()).add(suffix)
    return {
        field: sorted(spelled.get(field.lower(), {field.removeprefix("*.")}))
        for field in overview(shards).fields
        if field
    }


def _file_set(field: str, suffixes: Mapping[str, Sequence[str]], ids: list[dict[str, str]]) -> dict[str, object]:
    globs = [f"*.{_literal(suffix)}" for suffix in suffixes[field]]
    longer = [f"*.{_literal(each)}" for other in suffixes for each in suffixes[other] if other.endswith(f".{field}")]
    return {
        "@type": "cr:FileSet",
        "@id": f"{_identifier(field)}-files",
        "name": f"{_identifier(field)}-files",
        "containedIn": ids if len(ids) > 1 else ids[0],
        "encodingFormat": _kind(field)[0],
        "includes": globs if len(globs) > 1 else globs[0],
        **({"excludes": longer} if longer else {}),
    }


def _literal(suffix: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", suffix)


def _identifier(field: str) -> str:
    """Return a name for a field that no other field has.

    >>> _identifier("seg.png"), _identifier("a-b"), _identifier("a b")
    ('seg.png', 'a_2d_b', 'a_20_b')
    """
    return re.sub(r"[^A-Za-z0-9.]", lambda found: f"_{ord(found[0]):x}_", field)


def _kind(field: str) -> tuple[str, str]:
    return _KINDS.get(field.rpartition(".")[2], ("application/octet-stream", ""))


def _record_set(field: str, total: Overview) -> dict[str, object]:
    """Return the records of one field: the key of the sample, and the contents."""
    identifier = _identifier(field)
    key = {"extract": {"fileProperty": "fullpath"}, "transform": {"regex": _KEY}}
    content = {"extract": {"fileProperty": "content"}}
    names = list(total.json_keys)[:_NAMES] if field == "json" else []
    more = f": objects with the names {listed(names)}" if names else ""
    return {
        "@type": "cr:RecordSet",
        "@id": identifier,
        "name": identifier,
        "description": f"{how_many(total.fields[field].count, 'file')} {field}, at most one for each sample{more}",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{identifier}/{name}",
                "name": f"{identifier}/{name}",
                "dataType": kind,
                "source": {"fileSet": {"@id": f"{identifier}-files"}, **source},
            }
            for name, kind, source in (("__key__", "sc:Text", key), ("content", _kind(field)[1], content))
        ],
    }
