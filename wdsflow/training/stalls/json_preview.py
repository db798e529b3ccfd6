"""A short look into the json of one shard, for the name that captions have there."""

import threading
import time
from contextlib import suppress

from wdsflow.scan.content.json_fields import look_at_json
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.json_captions import note_names
from wdsflow.shards.samples.grouping import grouped
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk

_SECONDS = 1.5
_JSONS = 100
_LARGEST = 1 << 20  # bytes of one json


def peek(url: str, member: str, *, allow_pipe: bool = False) -> ShardEvidence | None:
    """Return the names in the first hundred members of that name; None if no json was to be had in two seconds.

    Only ``samples`` and ``json_keys`` are filled in.
    """
    found = ShardEvidence(url)
    # Storage that hangs may be why somebody looks: the thread is left alone with it then.
    thread = threading.Thread(target=_read, args=(found, member, allow_pipe), name="wdsflow-peek", daemon=True)
    thread.start()
    thread.join(_SECONDS + 0.5)
    return found if found.json_keys and not thread.is_alive() else None


def _read(found: ShardEvidence, member: str, allow_pipe: bool) -> None:
    until = time.monotonic() + _SECONDS
    with suppress(SourceError, OSError), open_source(found.url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for _, _, field, row in grouped(walk):
            if time.monotonic() > until or found.samples >= _JSONS:
                return
            if row[4] == "file" and field.lower() == member and row[1] <= _LARGEST:
                found.samples += 1
                note_names(found, look_at_json(walk.read(row), ())[2])
