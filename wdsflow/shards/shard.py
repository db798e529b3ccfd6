"""A shard: a file, a url or a command, which is never taken for a pattern again."""

import re
from typing import Literal

from wdsflow.text.secrets import HIDDEN, is_redacted, redact

Kind = Literal["file", "url", "pipe"]

PIPE = "pipe:"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Parameters of urls that S3, Google Cloud, CloudFront and Azure sign; all others may name the file.
_SIGNATURE = re.compile(r"[?&](X-Amz-Signature|X-Goog-Signature|Signature|sig)=", re.IGNORECASE)
_SIGNING = re.compile(
    r"(?<=[?&])(?:X-(?:Amz|Goog)-[^=&#]*|Signature|Expires|Policy|Key-Pair-Id|AWSAccessKeyId|GoogleAccessId"
    r"|sv|ss|srt|sr|sp|st|se|sip|spr|si|sig|sdd|ses|skoid|sktid|skt|ske|sks|skv|saoid|suoid|scid)=[^&#]*&?",
    re.IGNORECASE,
)


class Shard(str):
    """One shard after expansion.

    Its text names the shard wherever it is shown, stored or compared: passwords, tokens and
    signatures are hidden in it, and a signed url, which is another one each day, keeps its text.
    What opens the shard is ``exact``, which only ``open_source`` needs.

    The text of a file is a path that nobody takes for something else: a file named ``pipe:rm x`` is
    ``./pipe:rm x``. So a text that was stored gives the same shard again, see ``from_text``.
    """

    __slots__ = ("_exact",)
    _exact: str | None

    def __new__(cls, text: str, exact: str | None = None) -> "Shard":  # noqa: PYI034 - Self needs Python 3.11
        """Return a shard with a text; see ``file``, ``url``, ``command`` and ``from_text``."""
        made = super().__new__(cls, text)
        made._exact = None if exact == text else exact
        return made

    def __getnewargs__(self) -> tuple[str, str | None]:  # type: ignore[override]  # with what is hidden
        return str(self), self._exact

    @staticmethod
    def file(path: str) -> "Shard":
        """Return the shard with this path, whatever the path looks like.

        >>> Shard.file("pipe:rm x"), Shard.file("s/a.tar"), Shard.file("@x.tar")
        ('./pipe:rm x', 's/a.tar', './@x.tar')
        """
        first = path.partition("/")[0]
        is_plain = first and first[0] not in "@~#-" and ":" not in first and first == first.strip()
        return Shard(path if is_plain or path.startswith("/") else f"./{path}")

    @staticmethod
    def url(url: str) -> "Shard":
        """Return the shard of a server with this url, in which nothing stands for more than itself.

        >>> shard = Shard.url("https://user:word@host/a.tar?se=2026&sig=x")
        >>> shard, shard.exact
        ('https://***@host/a.tar?sig=***', 'https://user:word@host/a.tar?se=2026&sig=x')
        """
        text = redact(unsigned(url))
        signature = _SIGNATURE.search(url) if text != url else None
        if signature is not None and url.startswith("http"):
            text += f"{'&' if '?' in text else '?'}{signature[1]}={HIDDEN}"
        return Shard(text, url)

    @staticmethod
    def command(text: str) -> "Shard":
        """Return the shard that is the output of a command; ``text`` begins with ``pipe:``."""
        return Shard(redact(text), text)

    @staticmethod
    def from_text(text: str) -> "Shard":
        """Return the shard that had this text.

        A shard with a password or signature cannot be opened.
        """
        return Shard(text)

    @property
    def exact(self) -> str:
        """The path, url or command itself: never to be shown or stored."""
        return str(self) if self._exact is None else self._exact

    @property
    def kind(self) -> Kind:
        """Whether it is a file of this machine, the url of another one, or a command."""
        if self.startswith(PIPE):
            return "pipe"
        return "url" if _SCHEME.match(self) else "file"

    @property
    def is_pipe(self) -> bool:
        """Whether it is the output of a command."""
        return self.startswith(PIPE)

    @property
    def path(self) -> str | None:
        """The path of a file; None for any other shard."""
        return str(self) if self.kind == "file" else None

    @property
    def has_hidden_part(self) -> bool:
        """Whether its text hides a part of it."""
        return self._exact is not None

    @property
    def lacks_secret(self) -> bool:
        """Whether it comes from a record, which has no passwords and signatures, and needs one."""
        return self._exact is None and self.kind != "file" and is_redacted(self)

    def sibling(self, name: str) -> "Shard":
        """Return a file of the same folder on a server."""
        folder, slash, _ = self.exact.partition("?")[0].rpartition("/")
        return Shard.url(f"{folder}{slash}{name}")

    def with_number(self, number: int) -> "Shard":
        """Return the shard with another text, where two shards differ only in what is hidden."""
        return Shard(self.replace(HIDDEN, f"{HIDDEN}{number}", 1), self._exact)


def unsigned(url: str) -> str:
    """Return a url without its signature, which expires.

    >>> unsigned("https://host/a.tar?se=2026&sig=x/y%3D"), unsigned("https://host/get?file=a.tar&Expires=1&Signature=x")
    ('https://host/a.tar', 'https://host/get?file=a.tar')
    """
    signed = url.startswith("http") and _SIGNATURE.search(url)
    return _SIGNING.sub("", url).rstrip("?&") if signed else url
