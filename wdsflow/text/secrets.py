"""Passwords, tokens and signatures in urls and commands, which are never shown and never stored."""

import re
from urllib.parse import unquote

HIDDEN = "***"

# Names of query parameters, options and variables whose value gives access; words may stand before
# them, as in x-auth-token.
_NAMES = (
    r"(?:[\w.\-]*[\-_.])?(?:api[-_]?key|access[-_]?key(?:[-_]?id)?|access[-_]?token|auth|auth[-_]?token|authorization"
    r"|bearer|code|credentials?|jwt|key|pass|passwd|password|pwd|sas|secret|secret[-_]?(?:access[-_]?)?key"
    r"|session[-_]?id|sig|signature|token)"
    r"|AWSAccessKeyId|GoogleAccessId|OSSAccessKeyId|Key-Pair-Id|Policy|q-ak"
)
# Secrets of this process, for texts of libraries, which spell urls in ways of their own.
_MOST_KNOWN = 1000
_SHORTEST = 6
_known: set[str] = set()
# The user of a url. A password may hold any character, also an unquoted slash; digits after a colon
# are a port.
_USER = re.compile(
    r"(?<=://)(?!\*\*\*)(?:[^\s/?#'\"<>]*|[^\s/?#:@'\"<>]*:(?!\d*(?:/|$))[^\s@'\"<>]*)@"
)
_QUERY = re.compile(rf"(?<=[?&;])((?:{_NAMES})=)(?!\*\*\*)([^\s&;#'\"<>|\\]+)", re.IGNORECASE)
# In an encoded url within another one, as redirects have it.
_ENCODED = re.compile(
    rf"(?<=%26|%3F)((?:{_NAMES})%3D)(?!\*\*\*)((?:(?!%26|%23)[^\s&#'\"<>])+)", re.IGNORECASE
)
# Parts of a shell command: a header, an option, a variable, the user of curl.
_WORD = r"(?P<secret>'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
_HEADER = re.compile(
    r"(?P<name>\b(?:(?:proxy-)?authorization|cookie|[\w\-]*(?:token|api-key|secret|password)[\w\-]*)\s*:\s*"
    r"(?:(?:basic|bearer|token)\s+)?)(?P<secret>[^\s'\"]+)",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"(?<=\s)(?P<name>--?(?:{_NAMES})(?:=|\s+)){_WORD}", re.IGNORECASE)
_VARIABLE = re.compile(
    rf"(?P<name>\b[A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_KEY|API_KEY)[A-Z0-9_]*=){_WORD}"
)
_CURL_USER = re.compile(
    r"(?<=\s)(?P<name>(?:-u|--user|-U|--proxy-user)(?:=|\s*)['\"]?)(?P<secret>[^\s:'\"]+:[^\s'\"]+)"
)
# Names that mostly have other values: these are hidden
# where they are written, and not wherever they occur.
_COMMON = re.compile(r"(^|[-_.])(key|code|Policy)(=|%3D)$", re.IGNORECASE)
# A value of ``key`` and the like that names a file gives no access.
_FILE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|tzst|zip|parquet|jsonl?|csv)$", re.IGNORECASE)


def redact(text: str) -> str:
    """Return a text with passwords, tokens and signatures replaced by ``***``.

    They are found in urls and commands.

    >>> redact("https://user:word@host/a.tar?token=abc&part=1")
    'https://***@host/a.tar?token=***&part=1'
    >>> redact("https://host/get?key=shards/000.tar"), redact("s3://bucket/a.tar")
    ('https://host/get?key=shards/000.tar', 's3://bucket/a.tar')
    >>> redact("pipe:curl -H 'Authorization: Bearer abc' https://host/a.tar")
    "pipe:curl -H 'Authorization: Bearer ***' https://host/a.tar"
    """
    if "://" in text:
        text = _USER.sub(_without_user, text)
    if "=" in text:
        text = _QUERY.sub(_without_value, text)
    if "%3" in text:
        text = _ENCODED.sub(_without_value, text)
    if "pipe:" in text:
        text = _redact_command(text)
    return text


def redact_known(text: str) -> str:
    """Return a text redacted by ``redact``, and without secrets known from earlier calls.

    These are all secrets that ``redact`` has found in this process.
    """
    text = redact(text)
    for secret in sorted(_known, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def knows_secrets() -> bool:
    """Return whether ``redact`` has found a secret in this process."""
    return bool(_known)


def is_redacted(text: str) -> bool:
    """Return whether something is hidden in a text, so that nothing can be opened by it."""
    return HIDDEN in text


def _note(secret: str) -> None:
    """Remember a secret, as it is written and as it is meant."""
    for spelling in {secret, unquote(secret)}:
        if len(spelling) >= _SHORTEST and len(_known) < _MOST_KNOWN and spelling != HIDDEN:
            _known.add(spelling)


def _without_user(match: re.Match[str]) -> str:
    name, _, password = match[0].removesuffix("@").partition(":")
    _note(password or name)
    return f"{HIDDEN}@"


def _without_value(match: re.Match[str]) -> str:
    if _FILE.search(match[2]):
        return match[0]
    if not _COMMON.search(match[1]):
        _note(match[2])
    return f"{match[1]}{HIDDEN}"


def _redact_command(text: str) -> str:
    """Hide what a shell command gives to the program that it runs."""
    for pattern in (_HEADER, _OPTION, _VARIABLE, _CURL_USER):
        text = pattern.sub(_without_word, text)
    return text


def _without_word(match: re.Match[str]) -> str:
    _note(match["secret"].strip("'\""))
    return f"{match['name']}{HIDDEN}"
