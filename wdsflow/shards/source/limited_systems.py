"""File systems of fsspec with the limits of ``limits``: those of S3, the web and the hub."""

import os
import weakref
from inspect import signature
from typing import Any

from .limits import silence_limit

# File systems of the web: fsspec gives the same one to all
# who ask for it, also after the limit has changed.
_limited_by_us: "weakref.WeakSet[Any]" = weakref.WeakSet()


def limited(system: Any) -> Any:
    """Set the silence limit for a file system of fsspec, and return the file system.

    Limits set by the user are kept. Raises SourceError.
    """
    limit = silence_limit()
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if "s3" in protocols:
        _limit_s3(system, limit)
    elif "https" in protocols and (
        "timeout" not in system.client_kwargs or system in _limited_by_us
    ):
        from aiohttp import ClientTimeout

        # By default a response as a whole has five minutes.
        system.client_kwargs["timeout"] = ClientTimeout(
            total=None, sock_connect=limit, sock_read=limit
        )
        _limited_by_us.add(system)
    elif "hf" in protocols:
        _limit_hub(limit)
    return system


def _limit_s3(system: Any, limit: float) -> None:
    """Set the silence limit for s3fs, and let it try once.

    By itself, s3fs waits 25 times before ``with_retries`` tries again.
    """
    from aiobotocore.config import AioConfig

    system.connect_timeout = system.read_timeout = limit
    system.retries = 1
    if "AWS_MAX_ATTEMPTS" not in os.environ:
        system.config_kwargs.setdefault("retries", {"total_max_attempts": 1})
    # Not in older ones.
    if "http_session_cls" in signature(AioConfig.__init__).parameters:
        from .s3_session import LimitedSession

        system.config_kwargs.setdefault("http_session_cls", LimitedSession)


def _limit_hub(limit: float) -> None:
    """Let requests of huggingface_hub end, which have no limit of their own."""
    from huggingface_hub.utils import _http

    # An older one has no such function; or the user has set another client.
    default: Any = getattr(_http, "default_client_factory", _http)
    current: Any = getattr(_http, "_GLOBAL_CLIENT_FACTORY", None)
    if current is not default:
        return

    def client() -> Any:
        made = default()
        made.timeout = limit
        return made

    _http.set_client_factory(client)
