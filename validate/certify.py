"""Files with the hashes of shards: certificates of validation, and metadata in the Croissant format.

Croissant, https://docs.mlcommons.org/croissant, is JSON-LD on tars and their fields.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from wdsflow import version
from wdsflow.readers.installed_versions import versions
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.certificate import Certificate, CertificateError, is_whole, plain_url, shared_folder, stored_folder
from wdsflow.shards.shard_identity import Identity
from wdsflow.shards.source.base import local_path
from wdsflow.text.words import how_many, listed, size

from .inspect.overview import Overview, overview
from .report.as_json import clean, verdict_to_dict
from .report.baseline import fingerprint
from .report.report import Report
from .verdicts.wording import no_verdict_text

_LISTED = 1000  # findings that were accepted, each in full


def certify(report: Report, file: str | Path, pipeline: str | None = None) -> Certificate:
    """Return the certificate of shards that were judged and hashed, to be written to ``file``.

    Args:
        report: of ``check`` with ``identify=True``.
        file: path of the certificate. If its folder contains the shards, or theirs contains it, both can be moved together.
        pipeline: the argument of ``check``.

    Raises:
        CertificateError: there are errors, or a shard has no hash; the message says which.
    """
    if why := refusal(report):
        raise CertificateError(why)
    folder, shards = identities(report.evidence.shards)
    accepted = [(finding, "baseline") for finding in report.accepted]
    accepted += [(finding, f"ignored: {reason}" if reason else "ignored") for finding, reason in report.ignored]
    verdicts = [verdict_to_dict(verdict, report) for verdict in report.verdicts]
    for verdict in verdicts:
        del verdict["advice"]
    facts = {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions() | {"wdsflow": version.__version__},
        "level": report.level,
        "pipeline": pipeline,
        "trains": all(verdict.outcome == "trains" for verdict in report.verdicts),
        "samples": report.samples,
        "bytes": sum(shard.size for shard in shards.values()),
        "verdicts": verdicts,
        "accepted_findings": len(accepted),
        "accepted": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "shard": None if finding.shard is None else os.path.basename(finding.shard),
                "message": finding.message,
                "fingerprint": fingerprint(finding),
                "by": by,
            }
            for finding, by in accepted[:_LISTED]
        ],
    }
    return Certificate(stored_folder(folder, os.fspath(file)), shards, clean(facts), is_whole(folder, shards))


def refusal(report: Report) -> str:
    """Return why shards get no certificate; "" if they get one."""
    if why := no_verdict_text(report.evidence.shards) or _unidentified(report.evidence.shards):
        return why
    failing = [f"{verdict.title}: {verdict.outcome}" for verdict in report.verdicts if verdict.outcome != "trains"]
    if report.ok:
        return ""
    return "; ".join(failing) or f"errors were found: {', '.join(sorted({each.code for each in report.errors}))}"


def identities(shards: Sequence[ShardEvidence]) -> tuple[str, dict[str, Identity]]:
    """Return the common folder of shards, and the identity of each by its name in it.

    Raises CertificateError if one was not hashed, or if it is named twice and changed in between.
    """
    if why := _unidentified(shards):
        raise CertificateError(why)
    urls = [plain_url(shard.url) for shard in shards]
    folder = shared_folder(urls)
    found: dict[str, Identity] = {}
    for url, shard in zip(urls, shards, strict=True):
        assert shard.identity is not None
        name = url.removeprefix(folder)
        if found.setdefault(name, shard.identity) != shard.identity:
            raise CertificateError(
                f"{shard.url} is named twice, with other contents: it changed, or urls differ by query"
            )
    return folder, found


def _unidentified(shards: Sequence[ShardEvidence]) -> str:
    lacking = next((shard for shard in shards if shard.identity is None), None)
    return "" if lacking is None else f"{lacking.url} was not read: {lacking.error_detail or lacking.error}"


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
# Also of compressed tars: mlcroissant reads no members of a file with the encoding format of a compression.
_TAR = "application/x-tar"
_KINDS = {  # field -> its encoding, and the type of its contents if Croissant has one
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

    Tars are named relative to the folder of ``file`` if a folder holds both. Files that are not tars, such as an error page
    of a web server under the name of a shard, are left out; see ``not_tars``.

    Args:
        shards: evidence of a scan that hashed them; if it read json, the description has its names.
        file: path of the metadata.

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
