"""Known findings: a file of fingerprints; only new findings fail a run.

A fingerprint holds the code, the shard, the key and the message without its numbers. It stays the
same if only counts change, and differs for another shard.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from wdsflow.text.words import relative

from ..finding import Finding

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class BaselineError(ValueError):
    """The baseline file is missing or is not a list of fingerprints."""


def fingerprint(finding: Finding) -> str:
    """Return 20 hexadecimal digits that stay the same as long as the finding does."""
    shard = "" if finding.shard is None else relative(finding.shard)
    parts = (finding.code, shard, finding.key or "", _NUMBER.sub("#", finding.message))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def split_by_baseline(
    findings: Iterable[Finding], baseline: str | Path | Collection[str]
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are not in the baseline, and those that are.

    Args:
        findings: findings of the rules.
        baseline: the file, or its fingerprints.

    Raises:
        BaselineError: the file cannot be read.
    """
    known = load_baseline(baseline) if isinstance(baseline, str | Path) else frozenset(baseline)
    new: list[Finding] = []
    accepted: list[Finding] = []
    for finding in findings:
        if fingerprint(finding) in known:
            accepted.append(finding)
        else:
            new.append(finding)
    return new, accepted


def load_baseline(path: str | Path) -> frozenset[str]:
    """Read the fingerprints of a baseline.

    The file was made by ``--write-baseline``, or is a plain JSON list of fingerprints.

    Raises:
        BaselineError: the file cannot be read.
    """
    try:
        entries = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise BaselineError(
            f"cannot read the baseline {path}: {error.strerror or error}"
        ) from error
    except ValueError as error:
        raise BaselineError(f"the baseline {path} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise BaselineError(
            f"the baseline {path} is not a JSON list; make one with --write-baseline {path}"
        )
    fingerprints = set()
    for entry in entries:
        # An object of --write-baseline, or the fingerprint itself.
        value = entry.get("fingerprint") if isinstance(entry, dict) else entry
        if not isinstance(value, str):
            raise BaselineError(f"the baseline {path} has an entry without a fingerprint")
        fingerprints.add(value)
    return frozenset(fingerprints)


def dump_baseline(findings: Iterable[Finding]) -> str:
    """Return the text of a baseline file: one object per line for reviewers, sorted."""
    entries: dict[str, dict[str, str | None]] = {}
    for finding in findings:
        name = fingerprint(finding)
        entries[name] = {
            "fingerprint": name,
            "code": finding.code,
            "shard": None if finding.shard is None else relative(finding.shard),
            "key": finding.key,
            "message": finding.message,
        }
    lines = [f"  {json.dumps(entry)}" for entry in sorted(entries.values(), key=_order)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _order(entry: Mapping[str, str | None]) -> tuple[str, str, str]:
    """Return the sort key of an entry of a baseline: reviewers read it by code, then by shard."""
    return str(entry["code"]), entry["shard"] or "", str(entry["fingerprint"])
