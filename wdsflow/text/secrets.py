"""Passwords, tokens and signatures in urls and commands, which are never shown and never stored."""

import re

HIDDEN = "***"

# Names of query parameters, options and variables whose value gives access; words may stand before them, as in x-auth-token.
_NAMES = (
    r"(?:[\w.\-]*[\-_.])?(?:api[-_]?key|access[-_]?key(?:[-_]?id)?|access[-_]?token|auth|auth[-_]?token|authorization"
    r"|bearer|code|credentials?|jwt|key|pass|passwd|password|pwd|sas|secret|secret[-_]?(?:access[-_]?)?key"
    r"|session[-_]?id|sig|signature|token)"
    r"|AWSAccessKeyId|GoogleAccessId|OSSAccessKeyId|Key-Pair-Id|Policy|q-ak"
)
# The user of a url. A password may hold any character, also an unquoted slash; digits after a colon are a port.
_USER = re.compile(r"(?<=://)(?:[^\s/?#'\"<>]*|[^\s/?#:@'\"<>]*:(?!\d*(?:/|$))[^\s@'\"<>]*)@")
_QUERY = re.compile(rf"(?<=[?&;])((?:{_NAMES})=)([^\s&;#'\"<>|\\]+)", re.IGNORECASE)
# In an encoded url within another one, as redirects have it.
_ENCODED = re.compile(rf"(?<=%26|%3F)((?:{_NAMES})%3D)((?:(?!%26|%23)[^\s&#'\"<>])+)", re.IGNORECASE)
# Parts of a shell command: a header, an option, a variable, the user of curl.
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|cookie|[\w\-]*(?:token|api-key|secret|password)[\w\-]*)(\s*:\s*)"
    r"(?:(basic|bearer|token)\s+)?([^\s'\"]+)",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"(?<=\s)(--?(?:{_NAMES})(?:=|\s+))('[^']*'|\"[^\"]*\"|[^\s'\"]+)", re.IGNORECASE)
_VARIABLE = re.compile(
    r"\b([A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_KEY|API_KEY)[A-Z0-9_]*=)"
    r"('[^']*'|\"[^\"]*\"|[^\s'\"]+)"
)
_CURL_USER = re.compile(r"(?<=\s)((?:-u|--user|-U|--proxy-user)(?:=|\s*)['\"]?)([^\s:'\"]+:[^\s'\"]+)")
# A value of ``key`` and the like that names a file gives no access.
_FILE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|tzst|zip|parquet|jsonl?|csv)$", re.IGNORECASE)


def redact(text: str) -> str:
    """Return a text with ``***`` in place of passwords, tokens and signatures of the urls and commands in it.

    >>> redact("https://user:word@host/a.tar?token=abc&part=1")
    'https://***@host/a.tar?token=***&part=1'
    >>> redact("https://host/get?key=shards/000.tar"), redact("s3://bucket/a.tar")
    ('https://host/get?key=shards/000.tar', 's3://bucket/a.tar')
    >>> redact("pipe:curl -H 'Authorization: Bearer abc' https://host/a.tar")
    "pipe:curl -H 'Authorization: Bearer ***' https://host/a.tar"
    """
    if "://" in text:
        text = _USER.sub(f"{HIDDEN}@", text)
    if "=" in text:
        text = _QUERY.sub(_without_value, text)
    if "%3" in text:
        text = _ENCODED.sub(_without_value, text)
    if "pipe:" in text:
        text = _redact_command(text)
    return text


def is_redacted(text: str) -> bool:
    """Return whether something is hidden in a text, so that nothing can be opened by it."""
    return HIDDEN in text


def _without_value(match: re.Match[str]) -> str:
    return match[0] if _FILE.search(match[2]) else f"{match[1]}{HIDDEN}"


def _redact_command(text: str) -> str:
    """Hide what a shell command gives to the program that it runs."""
    text = _HEADER.sub(lambda match: f"{match[1]}{match[2]}{match[3] + ' ' if match[3] else ''}{HIDDEN}", text)
    text = _OPTION.sub(rf"\1{HIDDEN}", text)
    text = _VARIABLE.sub(rf"\1{HIDDEN}", text)
    return _CURL_USER.sub(rf"\1{HIDDEN}", text)
