"""Scores to write predicates about, predicates at random, and values for them."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.values import Unknown


def score(name: str, kind: str, tier: str) -> Any:
    return type(name, (), {"name": name, "kind": kind, "tier": tier})


@dataclass(frozen=True, kw_only=True)
class NearDuplicate:
    name: ClassVar[str] = "near_duplicate"
    kind: ClassVar[str] = "boolean"
    tier: ClassVar[str] = "pixels"

    distance: int = 6
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.distance < 0:
            raise ValueError(f"a distance cannot be negative: {self.distance}")


SCORES: dict[str, Any] = {
    "width": score("width", "number", "header"),
    "height": score("height", "number", "header"),
    "bytes": score("bytes", "number", "header"),
    "aspect_ratio": score("aspect_ratio", "number", "header"),
    "words_in_caption": score("words_in_caption", "number", "text"),
    "language": score("language", "text", "text"),
    "has_url": score("has_url", "boolean", "text"),
    "blur": score("blur", "number", "pixels"),
    "duplicate": score("duplicate", "boolean", "pixels"),
    "near_duplicate": NearDuplicate,
    "similarity": score("similarity", "number", "model"),
}
KINDS = {
    **{ScoreCall(name): kind.kind for name, kind in SCORES.items()},
    ScoreCall("near_duplicate", (("distance", 3),)): "boolean",
    ScoreCall("caption"): "text",
    ScoreCall("key"): "text",
    ScoreCall("has", (("field", "json"),)): "boolean",
}
NUMBERS = ["width", "height", "similarity", "blur"]
TEXTS = ["caption", "key", "language"]
CONDITIONS = ["duplicate", "has_url", "near_duplicate(distance=3)", 'has("json")']

plain = {
    "number": st.integers(-3, 3) | st.sampled_from([0.5, -1.5, math.inf]),
    "boolean": st.booleans(),
    "text": st.sampled_from(["", "a", "A cat", "cat", "\\udcff\n"]),
}
failed = st.sampled_from([Unknown("truncated"), Unknown("no-model"), None])


def value(kind: str) -> st.SearchStrategy:
    """Return whatever a score may give: one value, several, none, or a failure."""
    one = plain[kind] | failed | (st.just(math.nan) if kind == "number" else st.nothing())
    item = plain[kind] | st.none() | (st.just(math.nan) if kind == "number" else st.nothing())
    return plain[kind] | one | st.lists(item, max_size=3)


values = st.fixed_dictionaries({call: value(kind) for call, kind in KINDS.items()})
plain_values = st.fixed_dictionaries({call: plain[kind] for call, kind in KINDS.items()})

constants = st.sampled_from(["0", "1", "-2", "0.5", "3", "1e-3", "2 * KiB", "1_000"])
quoted = st.sampled_from(['""', "'a'", '"cat"', r"'\\d+'", r'"it\"s"'])


def joined(parts: st.SearchStrategy, *words: str) -> st.SearchStrategy:
    return st.builds(
        lambda left, word, right: f"{left} {word} {right}", parts, st.sampled_from(words), parts
    )


def closed(text: str) -> str:
    """Return a text with the parentheses that it lacks."""
    return text + ")" * (text.count("(") - text.count(")"))


names = st.sampled_from(NUMBERS) | constants
numbers = st.recursive(
    names,
    lambda inner: (
        joined(inner, "+", "-", "*").map("({})".format)
        # Not one within another: DuckDB takes seconds for such SQL.
        | st.builds("{} {} ({} + 7.25)".format, names, st.sampled_from(["/", "//", "%"]), names)
        | st.builds(
            "{}({})".format, st.sampled_from(["mean", "min", "max", "abs", "-", "(", "+"]), inner
        ).map(closed)
    ),
    max_leaves=4,
)
texts = st.sampled_from(TEXTS) | quoted | st.sampled_from(TEXTS).map("lower({})".format)


tests = (
    joined(numbers, "<", "<=", ">", ">=", "==", "!=")
    | st.builds("{} <= {} < {}".format, numbers, numbers, numbers)
    | joined(texts, "==", "!=", "in", "<")
    | st.builds("{} {} (1, -2, 0.5)".format, numbers, st.sampled_from(["in", "not in"]))
    | st.builds("{} <= {} + 0 <= {}".format, numbers, numbers, numbers)
    | st.builds("({}) is {}None".format, numbers | texts, st.sampled_from(["", "not "]))
    | st.builds("{}({} > {})".format, st.sampled_from(["any", "all"]), numbers, numbers)
    | st.builds("matches({}, {})".format, texts, st.sampled_from(["'^a'", "'(a+)+$'", r"r'c.t\b'"]))
    | st.builds("{} in ('a', 'cat')".format, texts)
    | st.sampled_from(CONDITIONS)
    | st.sampled_from(["True", "False"])
)
predicates = st.recursive(
    tests,
    lambda inner: (
        joined(inner, "and", "or").map("({})".format)
        | joined(inner, "and", "or")
        | st.builds("{} ({})".format, st.sampled_from(["not", "any", "all", ""]), inner)
    ),
    max_leaves=6,
)
