"""Messages about models that cannot be fetched from a hub."""

import logging
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from wdsflow.stages.scores.model.model import Model
from wdsflow.text.shell import command, escape, quote_path

# A connection that is refused may work a second later.
_TRIES, _PAUSE = 3, 1.0
# Seconds; after that, no further try.
_LONG = 3.0


@contextmanager
def without_a_silent_hub() -> Iterator[str]:
    """Let the hub's library use only its cache within the block if the hub cannot be reached; yield the reason.

    The time limit is the library's own (``HF_HUB_ETAG_TIMEOUT``, 10 s by default). Yields "" if the
    hub can be reached, or the library is offline already or not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError:
        yield ""
        return
    why = (
        ""
        if constants.HF_HUB_OFFLINE
        else silence(constants.ENDPOINT, constants.HF_HUB_ETAG_TIMEOUT)
    )
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or bool(why)
    try:
        yield why
    finally:
        constants.HF_HUB_OFFLINE = before


def silence(url: str, patience: float) -> str:
    """Return why a server, or its proxy, cannot be connected to within ``patience`` seconds; "" if it can."""
    import urllib.request

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


_log = logging.getLogger(__name__)
_RETRIES = logging.getLogger("huggingface_hub.utils._http")
_REPOSITORY = re.compile(r"https?://[^/]+/([^\s?]+?)/resolve/")


class Fetching:
    """The messages of the hub's library while a model is loaded."""

    def __init__(self, called: str, silence: str) -> None:
        self._called, self._silence = called, silence
        self._warned = False
        # The last one that did not answer.
        self._repository = ""

    def hear(self, record: logging.LogRecord) -> bool:
        """Return whether a message of the library is shown: one line for all its retries."""
        text = record.getMessage()
        if " while requesting " not in text and "[Retry " not in text:
            return True
        if found := _REPOSITORY.search(text):
            self._repository = found[1]
        if not self._warned:
            self._warned = True
            _log.warning("%s: its hub does not answer; trying again", escape(self._called))
        return False

    def trouble(self, model: Model, error: BaseException) -> str:
        """Return instructions if ``error`` means that the model could not be fetched, otherwise ""."""
        source, why = model.fetched(), _unreachable(error)
        if source is None or not why:
            return ""
        why = escape(self._silence, 200) or why
        what = self._repository or source.repository
        head = f"{model.called()} cannot be fetched: "
        if not what:
            get, use = (
                command(["curl", "-LO", source.url]),
                f"pretrained='{source.url.rpartition('/')[2]}'",
            )
            lines = [
                f"on a machine with a network: {get}",
                f"copy that file here, and name it in the score: {use}",
            ]
            return "\n  ".join([f"{head}{source.url} does not answer ({why})", *lines])
        from huggingface_hub.constants import HF_HUB_CACHE

        revision = (
            ["--revision", source.revision] if source.revision and what == source.repository else []
        )
        get = command(["hf", "download", what, *revision])
        kept = f"models--{what.replace('/', '--')}"
        lines = [
            f"on a machine with a network: {get} --cache-dir models",
            f"with that folder copied here: mkdir -p {quote_path(HF_HUB_CACHE)} && cp -r models/{kept} {quote_path(HF_HUB_CACHE)}",
        ]
        if what == source.repository:
            lines.append(
                f"or copy a plain folder, and name it in the score ({source.folder}): {get} --local-dir FOLDER"
            )
        return "\n  ".join(
            [f"{head}{what} is not in {HF_HUB_CACHE}, and its hub does not answer ({why})", *lines]
        )


@contextmanager
def fetching(model: Model) -> Iterator[Fetching]:
    """A context in which a model may be fetched: without a hub that cannot be reached, and without lines about retries."""
    root = logging.getLogger()
    with without_a_silent_hub() if model.fetched() is not None else nullcontext("") as silence:
        heard = Fetching(model.called(), silence)
        _RETRIES.addFilter(heard.hear)
        root.addFilter(_is_new)
        try:
            yield heard
        finally:
            _RETRIES.removeFilter(heard.hear)
            root.removeFilter(_is_new)


def _is_new(record: logging.LogRecord) -> bool:
    # OpenCLIP raises the same.
    return not record.getMessage().startswith("Failed to download weights")


def _unreachable(error: BaseException) -> str:
    """Return why nothing could be fetched, as the first cause reports it; "" for any other error."""
    import urllib.error

    errors = sys.modules.get("huggingface_hub.errors")
    kinds: tuple[type[BaseException], ...] = (urllib.error.URLError,)
    if errors is not None:
        kinds += (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)
    fits, following, last = False, error.__cause__ or error.__context__, error
    while True:
        fits = fits or (isinstance(last, kinds) and not isinstance(last, urllib.error.HTTPError))
        if following is None:
            return escape(str(last), 200) if fits else ""
        last, following = following, following.__cause__ or following.__context__
