"""Exceptions of file systems, in words."""

import re

from wdsflow.text.install import install_extras, install_packages

from .base import SourceChangedError, SourceError, Trouble
from .hub import SCHEME
from .limits import VARIABLE, is_silence, silence_limit
from .response_errors import UNSIGNED, cause_of, header_of, status_of

# fsspec's words.
_LIBRARY = re.compile(r"^Install (\S+) to ")
# Whose libraries the extra `remote` brings.
_REMOTE = frozenset(("http", "https", "s3", "s3a", "gs", "gcs", "hf"))

_UNKNOWN = "the repository does not exist, or it is private and your token cannot read it: check its name, or log in"
# By the hub's code or status.
_REFUSALS: dict[str | int | None, tuple[Trouble, str]] = {
    "GatedRepo": (
        "denied",
        "access is gated: ask for it on the page of the repository, then log in",
    ),
    401: ("denied", _UNKNOWN),
    "RepoNotFound": ("missing", _UNKNOWN),
    403: ("denied", "your token may not read it (status 403): log in with another"),
    429: (
        "io",
        "the hub limits requests (status 429): try again later, or log in for a higher limit",
    ),
    "RevisionNotFound": ("missing", "the repository has no such branch, tag or commit"),
    "EntryNotFound": ("missing", "the repository has no such file at this revision"),
}


def source_error(error: Exception, url: str) -> SourceError:
    """Translate an exception of a file system."""
    if isinstance(error, SourceError):
        return error
    error = cause_of(error)
    text = str(error) or type(error).__name__
    status = status_of(error)
    if url.startswith(SCHEME):
        refusal = _hub_error(error, status)
        if refusal is not None:
            return refusal
    if isinstance(error, PermissionError) or status in (401, 403):
        return SourceError("denied", f"status {status}: {text}" if status else text)
    if type(error).__name__ in UNSIGNED:
        return SourceError(
            "denied",
            f"{text}: set credentials, or FSSPEC_S3='{{\"anon\": true}}' for a public bucket",
        )
    if isinstance(error, FileNotFoundError) or status == 404:
        return SourceError("missing", f"no such file: {text}")
    if isinstance(error, ImportError):
        return _missing_library(url.partition(":")[0], text)
    if is_silence(error):
        longer = f"{VARIABLE}={5 * silence_limit():g} waits longer"
        return SourceError("io", f"no answer from the server for {silence_limit():g} s; {longer}")
    if isinstance(error, ValueError) and "rotocol" in text:
        return SourceError("refused", text)
    if type(error).__name__ == "FileExpired":
        return SourceChangedError()
    return SourceError("io", f"{type(error).__name__}: {text}")


def _missing_library(scheme: str, text: str) -> SourceError:
    library = _LIBRARY.search(text)
    fix = ""
    if scheme in _REMOTE:
        fix = install_extras("remote")
    elif library is not None:
        fix = install_packages(library[1])
    return SourceError(
        "needs-library", f"{scheme}: urls need a library that is not installed ({text})", fix
    )


def _hub_error(error: Exception, status: int | None) -> SourceError | None:
    """Translate what the hub or its client says; None if it is nothing special."""
    code = header_of(error, "X-Error-Code")
    for refusal, (kind, reason) in _REFUSALS.items():
        if refusal in (code, status):
            return SourceError(kind, reason, "hf auth login" if "log in" in reason else "")
    if status is None and not isinstance(error, (FileNotFoundError, ImportError, ValueError)):
        return SourceError(
            "io",
            f"the hub cannot be reached ({error}): check the network, and HF_ENDPOINT",
            "hf env",
        )
    return None
