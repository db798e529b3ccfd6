"""Numbers and places as text: the same in every report format."""

import math
import os
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from urllib.parse import urlsplit

from .shell import escape

# Characters of a name.
_SHORT = 63
# Characters of a message; messages cut their own quotes.
_LONG = 2_000


def roundest(low: float, high: float) -> float:
    """Return the number of fewest digits that is at least ``low`` and below ``high``.

    >>> roundest(0.2345, 0.2891), roundest(180.0, 320.0), roundest(-1.0, 1.0), roundest(3.0, 4.0)
    (0.25, 200.0, 0.0, 3.0)
    """
    if not (math.isfinite(low) and math.isfinite(high)) or low <= 0 < high:
        return 0.0 if low <= 0 < high else low
    first = math.floor(math.log10(max(abs(low), abs(high))))
    for exponent in range(first, first - 18, -1):
        for unit in (5, 2, 1):
            step = Decimal(unit).scaleb(exponent)
            found = float((Decimal(repr(low)) / step).to_integral_value(ROUND_CEILING) * step)
            if low <= found < high:
                return found
    return low


def roundest_after(below: float, value: float) -> float:
    """Return the number of fewest digits that is greater than ``below`` and at most ``value``.

    >>> roundest_after(0.281234, 0.283456), roundest_after(-1.55, -1.5499), roundest_after(9.7, 10.2)
    (0.282, -1.5499, 10.0)
    """
    return 0.0 - roundest(-value, -below)


def number_text(number: float) -> str:
    """Return a number as predicates have it.

    >>> number_text(200.0), number_text(0.25), number_text(-3.0), number_text(1e-07)
    ('200', '0.25', '-3', '1e-07')
    """
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))


def how_many(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> how_many(1, "shard"), how_many(12_000, "sample"), how_many(0, "batch", "batches")
    ('1 shard', '12,000 samples', '0 batches')
    """
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{number:,} {noun}"


def without_markup(docstring: str) -> str:
    """Return a docstring for a terminal: code in single quotes, or as it is if it has some itself.

    >>> without_markup("runs of ``n`` words; ``json_number('x')``")
    "runs of 'n' words; json_number('x')"
    """
    return re.sub(
        r"``(.+?)``",
        lambda code: code[1] if "'" in code[1] else f"'{code[1]}'",
        docstring,
        flags=re.DOTALL,
    )


def size(number: float) -> str:
    """Return a number of bytes in decimal units, as for disks and networks.

    >>> size(0), size(999), size(10_240), size(2_500_000), size(1.5e12)
    ('0 bytes', '999 bytes', '10 kB', '2.5 MB', '1.5 TB')
    """
    if number < 1000:
        return f"{number:.0f} bytes"
    units = ("kB", "MB", "GB", "TB", "PB")
    for unit in units:
        number /= 1000
        if number < 999.5 or unit == units[-1]:
            break
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:,.0f} {unit}"


def duration(seconds: float) -> str:
    """Return a duration with its unit.

    >>> duration(0.04), duration(3.21), duration(75), duration(7_322)
    ('0.04 s', '3.2 s', '75 s', '2 h 2 min')
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def short_name(url: str) -> str:
    """Return the last part of a shard's path or url, escaped.

    A long one is reduced to both ends, since its number is at the end.

    >>> short_name("s3://bucket/laion/00012.tar"), short_name("a/b.tar"), short_name("pipe:cat x/y.tar")
    ('00012.tar', 'b.tar', 'pipe:cat x/y.tar')
    >>> short_name(f"out/{'0123456789' * 6}_000042.tar")
    '0123456789012345678901234567...901234567890123456789_000042.tar'
    """
    name = url if url.startswith("pipe:") else url.rstrip("/").rpartition("/")[2] or url
    if len(name) > _SHORT:
        name = f"{name[:28]}...{name[-32:]}"
    return escape(name, _SHORT)


def plain_line(message: str) -> str:
    """Return a message as one line of harmless text; escaping twice changes nothing."""
    return escape(message, _LONG)


def command_lines(command: str) -> list[str]:
    r"""Return the lines of a command, each harmless to print.

    >>> command_lines("python - <<E\nprint(1)\nE")
    ['python - <<E', 'print(1)', 'E']
    """
    # A cut command would be wrong.
    return [escape(line, len(line)) for line in command.split("\n")] if command else []


def location_text(shard: str | None, key: str | None, offset: int | None, message: str = "") -> str:
    """Return the place, without the parts that the text ``message`` already names.

    With a key, the offset is that of the member at fault; of a whole sample, of its first member.

    >>> location_text("d/0001.tar", "cat", 5120), location_text("d/0001.tar", "cat", None, message="0001.tar: 3 of 9 ..."), location_text(None, None, 3)
    ('0001.tar, sample cat, member at byte 5,120', 'sample cat', '')
    """
    parts = []
    if shard is not None and short_name(shard) not in message:
        parts.append(short_name(shard))
    if key is not None and not _names(message, shown := escape(key, 60)):
        parts.append(f"sample {shown}")
    if (
        offset is not None
        and shard is not None
        and f"{offset:,}" not in message
        and str(offset) not in message
    ):
        parts.append(f"byte {offset:,}" if key is None else f"member at byte {offset:,}")
    return ", ".join(parts)


def _names(text: str, key: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", text) is not None and not (
        key.isdigit() and len(key) < 4
    )


def relative(url: str) -> str:
    """Return a local path relative to the working folder if it is inside.

    Anything else is returned unchanged.

    >>> relative("./shards/0.tar"), relative("s3://bucket/0.tar"), relative("/elsewhere/0.tar")
    ('shards/0.tar', 's3://bucket/0.tar', '/elsewhere/0.tar')
    """
    scheme = urlsplit(url).scheme
    # A single letter is a drive.
    if len(scheme) > 1 and scheme != "file":
        return url
    if scheme == "file":
        url = url.removeprefix("file:").removeprefix("//")
    path = os.path.normpath(url)
    inside = os.path.relpath(path) if os.path.isabs(path) else path
    return path if inside.startswith("..") else inside


def unique(texts: Iterable[str]) -> list[str]:
    """Return the texts in order, each once."""
    return list(dict.fromkeys(texts))


def enumeration(words: Iterable[str]) -> str:
    """Return words as an enumeration.

    >>> enumeration(["a"]), enumeration(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = list(words) or [""]
    return f"{', '.join(others)} and {last}" if others else last
