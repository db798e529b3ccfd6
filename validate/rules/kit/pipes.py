"""The shell commands of ``pipe:`` urls: how failures hide, and which are mere copies."""

import os
import re
import shlex

from wdsflow.text.shell import quote

CURL = re.compile(r"(?:^|[\s;|&(/])curl\s")
_CURL_FAILS = re.compile(r"\s(?:--fail|--fail-with-body|-[A-Za-z]*f[A-Za-z]*)(?:\s|=|$)")
_SWALLOWED = re.compile(r"\|\|\s*(?:true|:)|;\s*true\s*$")
_PIPED = re.compile(r"(?<!\|)\|(?!\|)")
_COPIES = {"aws": ["s3", "cp", "-"], "gsutil": ["cat"], "gcloud": ["storage", "cat"], "curl": []}
_SETTINGS = {
    "--endpoint-url": "AWS_ENDPOINT_URL",
    "--profile": "AWS_PROFILE",
    "--region": "AWS_DEFAULT_REGION",
}
# Options of curl that a url cannot express.
_SENDS = re.compile(r"-[A-Za-z]*[HubEXd]$|--(?:header|user|cookie|cert|request|data)")


def how_failures_hide(command: str) -> str:
    """Return why a failure of the command goes unnoticed, "" if it does not."""
    if _SWALLOWED.search(command):
        return "a failure is turned into success, and the output until then is taken for the shard"
    if CURL.search(command) and not _CURL_FAILS.search(command):
        return "curl without -f: an error page is taken for the shard"
    if _PIPED.search(command) and "pipefail" not in command:
        return "only the last command's failure is noticed: begin with 'set -o pipefail;'"
    return ""


def without_pipe(command: str) -> str:
    """Return the command that reads the url of a mere copy directly; "" for other pipes.

    >>> print(without_pipe("aws s3 cp --profile me s3://bucket/0.tar -"))
    AWS_PROFILE=me wdsflow validate s3://bucket/0.tar
    """
    lexer = shlex.shlex(_SWALLOWED.sub("", command), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tool, *words = lexer
    except ValueError:
        # No word, or an open quote.
        return ""
    # The words that make it a copy; an unknown tool has one that never comes.
    verbs = list(_COPIES.get(os.path.basename(tool), ["?"]))
    settings = []
    urls = []
    rest = iter(words)
    for word in rest:
        if word[:1] in "();<>|&" or "$" in word or "`" in word:
            # The shell does more than to run one program.
            return ""
        if not verbs and _SENDS.match(word):
            return ""
        name, _, value = word.partition("=")
        if name in _SETTINGS:
            settings.append(f"{_SETTINGS[name]}={quote(value or next(rest, ''))}")
        elif word == "--no-sign-request":
            settings.append("FSSPEC_S3='{\"anon\": true}'")
        elif re.match("(?:s3|gs|https?)://", word):
            urls.append(word)
        elif word in verbs:
            verbs.remove(word)
    if len(urls) != 1 or verbs:
        return ""
    return " ".join([*settings, "wdsflow validate", quote(urls[0])])
