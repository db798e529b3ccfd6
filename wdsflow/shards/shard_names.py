"""Names of shards: brace patterns, their natural order, and the names of outputs."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple
from urllib.parse import urlsplit

# Missing names that are spelled out.
SHOWN = 20

_DIGITS = re.compile(r"([0-9]+)")

# Names.
LIMIT = 10_000_000

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?")

_TAR = ".tar"
# Characters that OpenCLIP would take for a part of a pattern.
_BRACES = re.compile(r"([{}\\,])")

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")

# Fields that readers take for the image, in OpenCLIP's order.
IMAGE_FIELDS = ("jpg", "png", "jpeg", "webp")
IMAGES = ";".join(IMAGE_FIELDS)

_SURROGATE = re.compile("[\udc80-\udcff]")
_ENDING = re.compile(r"(\.tar)?(\.(gz|bz2|xz|zst|zstd))?$|\.(tgz|tbz2?|txz|tzst)$", re.IGNORECASE)


class Missing(NamedTuple):
    """Names of a series that no file has."""

    # The first few.
    names: list[str]
    total: int


def natural(name: str) -> tuple[list[str | int], str]:
    """Return a sort key by which numbers count as numbers.

    >>> sorted(["10.tar", "9.tar", "b.tar", "009.tar"], key=natural)
    ['009.tar', '9.tar', '10.tar', 'b.tar']
    """
    parts: list[str | int] = list(_DIGITS.split(name))
    parts[1::2] = [int(digits) if len(digits) < 1000 else 0 for digits in _DIGITS.findall(name)]
    return parts, name


def missing_numbers(names: Sequence[str]) -> list[Missing]:
    """Find numbers that are missing in the middle of each series of names.

    A series is recognized by one number that changes while the rest stays the same. If more than
    half as many numbers are missing as exist, they are not a series but identifiers.

    >>> missing_numbers(["s-000.tar", "s-001.tar", "s-003.tar", "t-7.tar"])
    [Missing(names=['s-002.tar'], total=1)]
    """
    series: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for name in names:
        folder, base = os.path.split(name)
        parts = _DIGITS.split(base)
        parts[0] = os.path.join(folder, parts[0])
        series[tuple(parts[::2])].append(parts)
    return [found for parts in series.values() if (found := _missing(parts)) is not None]


def _missing(names: list[list[str]]) -> Missing | None:
    changing = [at for at in range(1, len(names[0]), 2) if len({parts[at] for parts in names}) > 1]
    if len(changing) != 1:
        return None
    at = changing[0]
    digits = [parts[at] for parts in names]
    if max(map(len, digits)) > 18:
        return None
    present = sorted({int(number) for number in digits})
    count = present[-1] - present[0] + 1 - len(present)
    if not 0 < 2 * count <= len(present):
        return None
    width = len(digits[0]) if len(set(map(len, digits))) == 1 else 0
    holes = (number for one, other in pairwise(present) for number in range(one + 1, other))
    before, after = "".join(names[0][:at]), "".join(names[0][at + 1 :])
    return Missing([f"{before}{number:0{width}d}{after}" for number in islice(holes, SHOWN)], count)


class BadPattern(ValueError):
    """A brace pattern that cannot be expanded."""


def expand_braces(pattern: str) -> list[str]:
    """Expand as bash and webdataset do. Raises ``BadPattern``.

    >>> expand_braces("{08..10}.tar")
    ['08.tar', '09.tar', '10.tar']
    >>> expand_braces("{1..10000000000000000}.tar")
    Traceback (most recent call last):
    wdsflow.shards.shard_names.BadPattern: it names 10,000,000,000,000,000 files; 10,000,000 are the most
    """
    if "{" not in pattern and "}" not in pattern:
        return [pattern]
    import braceexpand

    try:
        count = count_names(pattern)
        if count <= LIMIT:
            return list(braceexpand.braceexpand(pattern))
    except (RecursionError, ValueError) as error:
        # Unbalanced braces are a ValueError.
        raise BadPattern(str(error)) from None
    raise BadPattern(f"it names {count:,} files; {LIMIT:,} are the most")


def count_names(pattern: str) -> int:
    """Count the names of a pattern without expanding it; braces that do not match count for one name."""
    total = 1
    for inner in _groups(pattern):
        if match := _RANGE.fullmatch(inner):
            start, end, step = int(match[1]), int(match[2]), int(match[3] or 1) or 1
            total *= abs(end - start) // step + 1
        elif _LETTERS.fullmatch(inner):
            total *= 52
        else:
            total *= sum(map(count_names, _alternatives(inner)))
        # Far beyond; keeps the numbers small.
        if total > LIMIT**4:
            break
    return total


def _groups(pattern: str) -> Iterator[str]:
    """Yield the text between matching braces, outermost only."""
    depth = start = 0
    for at, char in _unescaped(pattern):
        if char == "{":
            if not depth:
                start = at + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                yield pattern[start:at]


def _alternatives(inner: str) -> list[str]:
    """Split at commas outside of further braces."""
    depth, cuts = 0, [-1]
    for at, char in _unescaped(inner):
        if char == "," and not depth:
            cuts.append(at)
        depth += {"{": 1, "}": -1}.get(char, 0)
    return [
        inner[one + 1 : other] for one, other in zip(cuts, [*cuts[1:], len(inner)], strict=True)
    ]


def _unescaped(pattern: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 2
            continue
        yield at, pattern[at]
        at += 1


def brace_pattern(folder: str, names: Sequence[str]) -> str:
    """Return the one pattern that OpenCLIP expands to these files of a folder, in this order; "" if there is none.

    >>> brace_pattern("out", ["00000.tar", "00001.tar", "00002.tar", "00005.tar", "00007.tar", "00008.tar"])
    'out/{{00000..00002},00005,{00007..00008}}.tar'
    >>> brace_pattern("s3://bucket/out/", ["a.tar", "b.tar"])
    's3://bucket/out/{a,b}.tar'
    """
    base = f"{folder.rstrip('/')}/"
    # Sources are split at "::", and "${NAME}" is a variable, before braces count.
    if any("::" in text or "$" in text for text in (base, *names)):
        return ""
    before, numbers, after = _changing_number(names)
    if numbers:
        alternatives = list(_number_ranges(numbers))
    else:
        after = _TAR if all(name.endswith(_TAR) for name in names) else ""
        alternatives = [_escaped(name.removesuffix(after)) for name in names]
    # A range has braces of its own.
    middle = alternatives[0] if len(alternatives) == 1 else f"{{{','.join(alternatives)}}}"
    pattern = f"{_escaped(base + before)}{middle}{_escaped(after)}"
    return pattern if expand_braces(pattern) == [base + name for name in names] else ""


def _changing_number(names: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the text before the only number in which names differ, that number of each, and the text after it.

    >>> _changing_number(["s-00-of-02.tar", "s-01-of-02.tar"]), _changing_number(["a.tar", "b.tar"])
    (('s-', ['00', '01'], '-of-02.tar'), ('', [], ''))
    """
    parts = [_DIGITS.split(name) for name in names]
    first = parts[0]
    if any(len(each) != len(first) or each[::2] != first[::2] for each in parts):
        return "", [], ""
    changing = [at for at in range(1, len(first), 2) if len({each[at] for each in parts}) > 1]
    if len(changing) != 1:
        return "", [], ""
    at = changing[0]
    return "".join(first[:at]), [each[at] for each in parts], "".join(first[at + 1 :])


def _number_ranges(numbers: Sequence[str]) -> Iterator[str]:
    """Yield numbers, and ranges of those that rise by one and have one width.

    >>> list(_number_ranges(["8", "9", "10", "012", "013"]))
    ['{8..10}', '{012..013}']
    """
    runs: list[list[str]] = []
    for number in numbers:
        if runs and _is_next(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield run[0] if len(run) == 1 else f"{{{run[0]}..{run[-1]}}}"


def _is_next(number: str, other: str) -> bool:
    # As bash counts: {9..11} has no zeros in front.
    width = len(number) if number.startswith("0") else 0
    return other == f"{int(number) + 1:0{width}d}"


def _escaped(text: str) -> str:
    return _BRACES.sub(r"\\\1", text)


def alternatives(fields: str | Iterable[str]) -> tuple[str, ...]:
    """Split names joined by semicolons. Raises ValueError if there are none, or webdataset's own (``__key__``).

    >>> alternatives("jpg; png")
    ('jpg', 'png')
    """
    parts = fields.split(";") if isinstance(fields, str) else fields
    names = tuple(dict.fromkeys(name for part in parts if (name := part.strip())))
    if not names:
        raise ValueError(
            f"{fields!r} names no field; give one such as 'txt', or alternatives such as 'jpg;png'"
        )
    for name in names:
        if is_meta(name):
            raise ValueError(f"{name!r} belongs to webdataset and is not for stages to change")
    return names


def is_meta(name: str) -> bool:
    """Whether a name is one of webdataset's own, such as ``__key__`` and ``__url__``."""
    return name.startswith("__") and name.endswith("__")


def output_names(urls: Sequence[str]) -> list[str]:
    r"""Return a file name for each url: its base name as a plain tar; equal ones are numbered.

    Bytes that are not UTF-8 are spelled out, as in urls: libraries that write files cannot have
    them in a name.

    >>> output_names(["\udcff.tar"])
    ['%FF.tar']
    >>> output_names(["a/0.tar", "b/0.tar.gz", "https://host/1.tgz?download=true"])
    ['0.tar', '0-2.tar', '1.tar']
    """
    stems = [_stem(url, number) for number, url in enumerate(urls)]
    taken: set[str] = set()
    names: list[str] = []
    for stem in stems:
        name, count = stem, 1
        while name in taken or (count > 1 and name in stems):
            count += 1
            name = f"{stem}-{count}"
        taken.add(name)
        names.append(f"{name}.tar")
    return names


def _stem(url: str, number: int) -> str:
    path = url.rstrip("/")
    if url.startswith("pipe:"):
        path = f"shard-{number:06d}"
    elif "://" in url:
        path = urlsplit(url).path.rstrip("/")
    base = _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", path.rpartition("/")[2])
    return _ENDING.sub("", base) or f"shard-{number:06d}"
