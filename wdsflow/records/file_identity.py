"""Whether a file is as a run has written it."""

from pathlib import Path

from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError

# A fingerprint; None for a file that must not exist.
Identity = dict[str, object] | None
# The identity of a file that only has to exist.
MUST_EXIST: dict[str, object] = {}


def why_changed(path: Path, written: Identity) -> str:
    """Return why a file differs from the one that was written, "" if it does not.

    Raises SourceError if it cannot be read.
    """
    if written == MUST_EXIST:
        return "" if path.exists() else f"{path} is missing"
    try:
        current = fingerprint(str(path))
    except SourceError as error:
        if error.kind != "missing":
            raise
        return "" if written is None else f"{path} is missing"
    return "" if current == written else f"{path} was changed since it was written"
