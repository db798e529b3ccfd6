"""Messages about models that cannot be fetched from a hub."""

import logging
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from wdsflow.stages.scores.model.model import Model, ModelSource
from wdsflow.text.shell import command, escape, quote_path

_log = logging.getLogger(__name__)
# The logger of the hub's library that reports retries.
_RETRIES = logging.getLogger("huggingface_hub.utils._http")
_REPOSITORY = re.compile(r"https?://[^/]+/([^\s?]+?)/resolve/")
# Attempts to connect, and seconds between them: a connection that is refused may work a second
# later.
_TRIES = 3
_PAUSE = 1.0
# Seconds; after that, no further attempt.
_LONG = 3.0


@contextmanager
def offline_if_unreachable() -> Iterator[str]:
    """Limit the hub's library to its cache inside the block if the hub cannot be reached.

    Yields the reason.

    The time limit is the library's own (``HF_HUB_ETAG_TIMEOUT``, 10 s by default). Yields "" if the
    hub can be reached, or the library is offline already or not installed.
    """
    try:
        from huggingface_hub import constants
    except ImportError:
        yield ""
        return
    was_offline = constants.HF_HUB_OFFLINE
    reason = ""
    if not was_offline:
        reason = connection_fault(constants.ENDPOINT, constants.HF_HUB_ETAG_TIMEOUT)
    constants.HF_HUB_OFFLINE = was_offline or bool(reason)
    try:
        yield reason
    finally:
        constants.HF_HUB_OFFLINE = was_offline


def connection_fault(url: str, patience: float) -> str:
    """Return why no connection to a server or its proxy can be made; "" if it can.

    ``patience``: the time limit in seconds.
    """
    import urllib.request

    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    reason = ""
    start = time.monotonic()
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        try:
            with socket.create_connection((host, port), patience):
                return ""
        except OSError as error:
            reason = f"{host}:{port}: {error}"
        if time.monotonic() - start > _LONG:
            break
    return reason


class Fetching:
    """Handles the messages of the hub's library while a model is loaded.

    ``unreachable``: why the model's hub cannot be reached, "" if it can.
    """

    def __init__(self, called: str, unreachable: str) -> None:
        self._called = called
        self._unreachable = unreachable
        self._warned = False
        # The last one that did not answer.
        self._repository = ""

    def should_show(self, record: logging.LogRecord) -> bool:
        """Return whether a message of the library is shown: one line for all its retries."""
        text = record.getMessage()
        if " while requesting " not in text and "[Retry " not in text:
            return True
        repository = _REPOSITORY.search(text)
        if repository:
            self._repository = repository[1]
        if not self._warned:
            self._warned = True
            _log.warning("%s: its hub does not answer; trying again", escape(self._called))
        return False

    def instructions(self, model: Model, error: BaseException) -> str:
        """Return how to fetch the model elsewhere if it could not be fetched, otherwise "".

        ``error`` is the failure to load the model.
        """
        source = model.download_source()
        reason = _unreachable(error)
        if source is None or not reason:
            return ""
        reason = escape(self._unreachable, 200) or reason
        lines = _download_lines(source, self._repository or source.repository, reason)
        return f"{model.display_name()} cannot be fetched: " + "\n  ".join(lines)


def _download_lines(source: ModelSource, repository: str, reason: str) -> list[str]:
    """Return the problem, and how to fetch a repository of the hub elsewhere.

    The repository is the model's own, or one that it needs.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    words = ["hf", "download", repository]
    is_model = repository == source.repository
    if is_model and source.revision:
        words += ["--revision", source.revision]
    download = command(words)
    cached = f"models/models--{repository.replace('/', '--')}"
    cache = quote_path(HF_HUB_CACHE)
    lines = [
        f"{repository} is not in {HF_HUB_CACHE}, and its hub does not answer ({reason})",
        f"on a machine with a network: {download} --cache-dir models",
        f"with that folder copied here: mkdir -p {cache} && cp -r {cached} {cache}",
    ]
    if is_model:
        lines.append(
            f"or copy a plain folder, and name it in the score ({source.folder}): {download} --local-dir FOLDER"
        )
    return lines


@contextmanager
def fetching(model: Model) -> Iterator[Fetching]:
    """A context in which a model may be fetched, with at most one line about retries.

    If its hub cannot be reached, the hub's library uses only its cache.
    """
    root = logging.getLogger()
    with (
        offline_if_unreachable()
        if model.download_source() is not None
        else nullcontext("") as reason
    ):
        fetch = Fetching(model.display_name(), reason)
        _RETRIES.addFilter(fetch.should_show)
        root.addFilter(_is_new)
        try:
            yield fetch
        finally:
            _RETRIES.removeFilter(fetch.should_show)
            root.removeFilter(_is_new)


def _is_new(record: logging.LogRecord) -> bool:
    # OpenCLIP raises the same.
    return not record.getMessage().startswith("Failed to download weights")


def _unreachable(error: BaseException) -> str:
    """Return why nothing could be fetched, as the first cause reports it.

    "" for any other error.
    """
    errors = sys.modules.get("huggingface_hub.errors")
    if errors is None:
        return ""
    is_unreachable = False
    cause: BaseException | None = error
    first_cause = error
    while cause is not None:
        first_cause = cause
        if isinstance(cause, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
            is_unreachable = True
        cause = cause.__cause__ or cause.__context__
    return escape(str(first_cause), 200) if is_unreachable else ""
