"""Expressions and samples drawn at random, from a seed."""

import math
from random import Random

from tests.expressions.reference import Value

NUMBERS = [
    "width",
    "height",
    "bytes",
    "blur",
    "similarity",
    "json_number(path='a.b')",
    "json_number(path='A.B')",
]
TEXTS = ["caption", "key", "language"]
CONDITIONS = ["duplicate", "has_url", "near_duplicate(distance=4)", "has(field='json')"]
COLUMNS = {
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(CONDITIONS, "boolean"),
}
QUOTED = [
    "''",
    "'a'",
    "'Cat'",
    "'it\\'s'",
    "'猫 é'",
    '"x; DROP TABLE samples; --"',
    "' \\t'",
    "'100%_'",
    "'\\\\'",
]
PATTERNS = ["'^a'", "r'\\bcat\\b'", "'(a+)+$'", "'[A-Z]'", "'.'", "r'\\s$'"]


def expression(random: Random, depth: int = 3) -> str:
    """Return a condition."""
    terms = [condition(random, depth) for _ in range(random.choice([1, 1, 2, 3]))]
    return " and ".join(terms)


def condition(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(
            [*CONDITIONS, "True", "False", f"{number(random, 0)} > {constant(random)}"]
        )
    again = depth - 1
    match random.randrange(13):
        case 0 | 1:
            return f"{number(random, again)} {compare(random)} {number(random, again)}"
        case 2:
            return f"{constant(random)} <= {number(random, again)} < {number(random, again)}"
        case 3:
            return f"({condition(random, again)} and {condition(random, again)})"
        case 4:
            return f"({condition(random, again)} or {condition(random, again)})"
        case 5:
            return f"not ({condition(random, again)})"
        case 6:
            options = ", ".join(constant(random) for _ in range(random.randint(1, 4)))
            return f"{number(random, again)} {random.choice(['in', 'not in'])} ({options},)"
        case 7:
            options = ", ".join(random.choice(QUOTED) for _ in range(random.randint(1, 3)))
            return f"{text(random, again)} {random.choice(['in', 'not in'])} [{options}]"
        case 8:
            tested = random.choice([number, text])(random, again)
            return f"({tested}) is {random.choice(['', 'not '])}None"
        case 9:
            return f"{random.choice(['any', 'all'])}({condition(random, again)})"
        case 10:
            test, then, other = (condition(random, again) for _ in range(3))
            return f"({then} if {test} else {other})"
        case 11:
            return f"({condition(random, again)}) {random.choice(['==', '!='])} ({condition(random, again)})"
        case _:
            return test_of_text(random, again)


def test_of_text(random: Random, depth: int) -> str:
    value = text(random, depth)
    match random.randrange(5):
        case 0:
            return f"{value} {compare(random)} {random.choice(QUOTED)}"
        case 1:
            return f"{random.choice(QUOTED)} {random.choice(['in', 'not in'])} {value}"
        case 2:
            return f"{random.choice(['contains', 'startswith', 'endswith'])}({value}, {random.choice(QUOTED)})"
        case 3:
            return f"matches({value}, {random.choice(PATTERNS)})"
        case _:
            return f"{value} {compare(random)} {text(random, depth)}"


def number(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.4:
        return random.choice(NUMBERS) if random.random() < 0.8 else constant(random)
    again = depth - 1
    match random.randrange(8):
        case 0 | 1 | 2:
            sign = random.choice(["+", "-", "*", "/", "//", "%"])
            # A constant alone could be a division by zero,
            # which is refused, and so are two constants.
            return f"({random.choice(NUMBERS)} {sign} {number(random, again)})".replace(
                "/ 0)", "/ 3)"
            ).replace("% 0)", "% -3)")
        case 3:
            return f"-({number(random, again)})"
        case 4:
            return f"{random.choice(['abs', 'round'])}({number(random, again)})"
        case 5:
            return f"{random.choice(['min', 'max', 'mean'])}({number(random, again)})"
        case 6:
            return f"{random.choice(['length', 'words'])}({text(random, again)})"
        case _:
            return f"({number(random, again)} if {condition(random, again)} else {number(random, again)})"


def text(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.6:
        return random.choice(TEXTS)
    return f"{random.choice(['lower', 'upper', 'strip'])}({text(random, depth - 1)})"


def compare(random: Random) -> str:
    return random.choice(["<", "<=", ">", ">=", "==", "!="])


def constant(random: Random) -> str:
    return random.choice(
        ["0", "1", "-2", "0.5", "3", "1e-3", "2 * KiB", "1_000", "0.1", "-7.25", "1e300"]
    )


def sample(random: Random, several: bool) -> dict[str, list[Value]]:
    """Return the values of a sample, with several items in some columns."""
    columns = {}
    for name, kind in COLUMNS.items():
        count = random.choice([1, 2, 3]) if several and random.random() < 0.5 else 1
        columns[name] = [value(random, kind) for _ in range(count)]
    return columns


def value(random: Random, kind: str) -> Value:
    if random.random() < 0.15:
        return None
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "text":
        return random.choice(
            [
                "",
                "a",
                "A cat",
                "cat",
                " Two\tcats\u00a0",
                "猫 é",
                "it's",
                "\\",
                "100%_",
                "a\nb",
                "\0x",
            ]
        )
    odd = [0.0, -0.0, 0.1, 1e300, -1e300, 1e-300, math.nan, math.inf, -math.inf]
    return random.choice([*map(float, range(-4, 5)), 0.5, -1.75, 2048.0, 1000.0, *odd])
