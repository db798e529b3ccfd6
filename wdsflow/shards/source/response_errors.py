"""What the exceptions of file systems say about the response of a server."""

# Raised by botocore without credentials, for a bucket that needs them.
UNSIGNED = frozenset(("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"))


def cause_of(error: Exception) -> Exception:
    """Return the underlying cause of an exception.

    fsspec reports every failure to open a url as a missing file.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    return error if status_of(cause) in (404, 410) else cause


def status_of(error: BaseException) -> int | None:
    """Return the status of the server's response, if the exception or its cause has it."""
    for cause in (error, error.__cause__):
        status = getattr(cause, "status", None)
        if status is None:
            status = _response_status(getattr(cause, "response", None))
        if isinstance(status, int):
            return status
    return None


def _response_status(response: object) -> object:
    """Return the status of a response of botocore, which is a dict, or of requests."""
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status:
            return status
    return getattr(response, "status_code", None)


def s3_code_of(error: BaseException) -> str:
    """Return the code of a response of S3, "" if there is none."""
    for cause in (error, error.__cause__):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def header_of(error: BaseException, header: str) -> str:
    """Return a header of the server's response, "" if there is none."""
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or getattr(error, "headers", None) or {}
    return str(headers.get(header) or "")
