"""The brace pattern by which OpenCLIP reads the shards of a folder."""

import re
from collections.abc import Iterator, Sequence

from .braces import expand_braces
from .numbered_names import changing_position, is_next, split_at_numbers

_TAR = ".tar"
# Characters that OpenCLIP would take for a part of a pattern.
_BRACES = re.compile(r"([{}\\,])")


def brace_pattern(folder: str, names: Sequence[str]) -> str:
    """Return the single pattern that OpenCLIP expands to these files of a folder, in this order.

    "" if no such pattern exists.

    >>> brace_pattern("out", ["00000.tar", "00001.tar", "00002.tar", "00005.tar", "00007.tar", "00008.tar"])
    'out/{{00000..00002},00005,{00007..00008}}.tar'
    >>> brace_pattern("s3://bucket/out/", ["a.tar", "b.tar"])
    's3://bucket/out/{a,b}.tar'
    """
    base = f"{folder.rstrip('/')}/"
    # Sources are split at "::", and "${NAME}" is a variable, before braces count.
    if any("::" in text or "$" in text for text in (base, *names)):
        return ""
    before, numbers, after = _split_at_changing_number(names)
    if numbers:
        alternatives = list(_number_ranges(numbers))
    else:
        after = _TAR if all(name.endswith(_TAR) for name in names) else ""
        alternatives = [_escaped(name.removesuffix(after)) for name in names]
    middle = f"{{{','.join(alternatives)}}}"
    if len(alternatives) == 1:
        # A range has braces of its own.
        middle = alternatives[0]
    pattern = f"{_escaped(base + before)}{middle}{_escaped(after)}"
    return pattern if expand_braces(pattern) == [base + name for name in names] else ""


def _split_at_changing_number(names: Sequence[str]) -> tuple[str, list[str], str]:
    """Split names at the only number in which they differ.

    Returns the text before it, the number in each name, and the text after it. All are empty if
    there is no such number.

    >>> _split_at_changing_number(["s-00-of-02.tar", "s-01-of-02.tar"]), _split_at_changing_number(["a.tar", "b.tar"])
    (('s-', ['00', '01'], '-of-02.tar'), ('', [], ''))
    """
    split = [split_at_numbers(name) for name in names]
    first = split[0]
    for parts in split:
        if len(parts) != len(first) or parts[::2] != first[::2]:
            return "", [], ""
    at = changing_position(split)
    if at is None:
        return "", [], ""
    return "".join(first[:at]), [parts[at] for parts in split], "".join(first[at + 1 :])


def _number_ranges(numbers: Sequence[str]) -> Iterator[str]:
    """Yield numbers, and ranges of those that rise by one and have one width.

    >>> list(_number_ranges(["8", "9", "10", "012", "013"]))
    ['{8..10}', '{012..013}']
    """
    runs: list[list[str]] = []
    for number in numbers:
        if runs and is_next(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield run[0] if len(run) == 1 else f"{{{run[0]}..{run[-1]}}}"


def _escaped(text: str) -> str:
    return _BRACES.sub(r"\\\1", text)
