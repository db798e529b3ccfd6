"""Whether a model hub can be reached: the hub's library tries each file for half a minute before it gives up."""

import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_TRIES, _PAUSE = 3, 1.0  # what refuses or has no address at once may do better a second later
_LONG = 3.0  # seconds; a name server that took so long is not asked again


@contextmanager
def without_a_silent_hub() -> Iterator[str]:
    """Let the hub's library use only its cache within the block, where no connection to the hub comes about; give why.

    A connection gets the library's own time limit (``HF_HUB_ETAG_TIMEOUT``, 10 s by default), so that a slow network is
    used as before. Gives "" where the hub can be reached, the library is offline already, or is not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError:
        yield ""
        return
    why = "" if constants.HF_HUB_OFFLINE else silence(constants.ENDPOINT, constants.HF_HUB_ETAG_TIMEOUT)
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or bool(why)
    try:
        yield why
    finally:
        constants.HF_HUB_OFFLINE = before


def silence(url: str, patience: float) -> str:
    """Return why no connection to a server, or to the proxy for it, comes about within ``patience`` seconds; "" if one does."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    why, start = "", time.monotonic()
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE)
        try:
            with socket.create_connection(address, patience):
                return ""
        except OSError as error:
            why = f"{address[0]}:{address[1]}: {error}"
        if time.monotonic() - start > _LONG:
            break
    return why
