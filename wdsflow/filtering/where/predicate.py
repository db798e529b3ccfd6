"""From text to a predicate; comparisons with only one possible result; ranks and shares; columns of ledgers."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wdsflow.stages.scores.base import DatasetScore, Score
from wdsflow.stages.scores.reference_lists import read_list
from wdsflow.stages.scores.score_catalog import all_scores, make_score

from .evaluate_predicate import SIGNS, Term, Where, runner
from .known_facts import FACTS, RankPercent
from .parser import Parser
from .tokens import WhereError
from .tree import Compare, Literal, Membership, NameRef, Node, Op, calls_of, printed
from .values import PENDING, Call, ScoreType, Unknown

MOST_TERMS = 256  # the time of a plan is quadratic in it


def parse(text: str, scores: Mapping[str, ScoreType]) -> Where:
    """Return the predicate that a text means. Raises WhereError, with the place and what to write instead.

    ``scores`` are classes or objects with a name, a kind and a tier. ``caption``, ``key`` and ``has("json")`` are known
    as well.
    """
    parser = Parser(text, {**FACTS, **scores})
    whole = parser.parse()
    parts = whole.parts if isinstance(whole.node, Op) and whole.node.name == "and" else (whole,)
    if len(parts) > MOST_TERMS:
        place = parts[MOST_TERMS]
        raise WhereError(
            text, place.start, place.end, f"more than {MOST_TERMS} terms", "a list is shorter: x in (1, 2)"
        )
    terms = dict.fromkeys(
        Term(" ".join(text[part.start : part.end].splitlines()), part.node, (part.start, part.end)) for part in parts
    )
    tiers = {call: parser.scores[call.name].tier for term in terms for call in term.calls}
    return Where(text, tuple(terms), tuple(tiers.items()))


def parse_score(text: str, names: Mapping[str, ScoreType]) -> Call:
    """Return the score that a text names, with its settings, such as ``near_duplicate(distance=4)``.

    Raises ValueError if it names none, or has more text.
    """
    try:
        terms = parse(f"{text} is null", names).terms
    except WhereError as error:
        if error.start > len(text):  # the addition does not fit: the text is a whole condition
            raise ValueError(_NO_SCORE.format(text)) from None
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"scores: {text!r}: {error.detail}{hint}") from None
    node = tested_for_null(terms)
    if isinstance(node, NameRef):
        return node.call
    raise ValueError(_NO_SCORE.format(text))


def tested_for_null(terms: Sequence[Term]) -> Node | None:
    """Return the value that a predicate tests for null, None if it is not such a test alone."""
    node = terms[0].node
    return node.items[0] if len(terms) == 1 and isinstance(node, Op) and node.name == "is null" else None


_NO_SCORE = "scores: {!r} is not the name of a score; conditions belong in --where, and all scores are listed by: wdsflow scores"


class _Range(NamedTuple):
    low: float = -math.inf
    high: float = math.inf


_ANY = _Range()


def check_ranges(where: Where, names: Mapping[str, type[Score]]) -> list[str]:
    """Return a line for each comparison whose result is the same for all values that a score can have.

    Raises WhereError, with the place in the whole predicate, if a term can never hold: nothing would be kept.
    """
    known = {**FACTS, **names}
    lines: list[str] = []
    for term in where.terms:
        fixed = dict(_fixed(term.node, known))
        if _holds(term.node, known) is False and fixed:
            worst = next((node for node, holds in fixed.items() if not holds), next(iter(fixed)))
            detail = f"{printed(worst)} {'always' if fixed[worst] else 'never'} holds: {_about(worst, known)}"
            raise WhereError(where.text, *term.place, detail, _hint(worst, known))
        lines += [
            f"{printed(node)} {'always' if holds else 'never'} holds: {_about(node, known)}"
            for node, holds in fixed.items()
        ]
    return lines


def _fixed(node: Node, known: Mapping[str, type[Score]]) -> Iterator[tuple[Node, bool]]:
    """Yield the comparisons of scores that have one result, and that result."""
    if isinstance(node, (Compare, Membership)):
        holds = _holds(node, known)
        if holds is not None and any(True for _ in calls_of(node)):
            yield node, holds
        return
    if not (isinstance(node, Op) and node.name == "is null"):  # which does not test values
        for item in node.items:
            yield from _fixed(item, known)


def _holds(node: Node, known: Mapping[str, type[Score]]) -> bool | None:
    """Return the only result that a condition can have, if it is known; None otherwise."""
    match node:
        case Compare(signs, operands):
            ranges = [_range(operand, known) for operand in operands]
            return _all([_link(*link) for link in zip(signs, ranges, ranges[1:], strict=False)])
        case Membership((body,), options) if body.kind == "number":
            low, high = _range(body, known)
            return None if any(low <= option <= high for option in options if not isinstance(option, str)) else False
        case Op("and" | "all" | "any", items):
            return _all([_holds(item, known) for item in items])
        case Op("not", (body,)):
            return _opposite(_holds(body, known))
        case Op("or", items):
            return _opposite(_all([_opposite(_holds(item, known)) for item in items]))
    return None


def _opposite(result: bool | None) -> bool | None:
    return None if result is None else not result


def _all(results: list[bool | None]) -> bool | None:
    if False in results:
        return False
    return True if None not in results else None


def _link(sign: str, left: _Range, right: _Range) -> bool | None:
    """Return the only result of a comparison of any two values in two ranges."""
    if sign in {"==", "!="}:
        apart = left.high < right.low or right.high < left.low
        return None if not apart else sign == "!="
    ends = (left.high, right.low) if sign in {"<", "<="} else (left.low, right.high)
    other = (left.low, right.high) if sign in {"<", "<="} else (left.high, right.low)
    if SIGNS[sign](*ends):
        return True
    return None if SIGNS[sign](*other) else False


def _range(node: Node, known: Mapping[str, type[Score]]) -> _Range:
    match node:
        case Literal(value) if not isinstance(value, str):
            return _Range(float(value), float(value))
        case NameRef(call, "number"):
            score = known.get(call.name)
            ends: list[float | None] = [getattr(score, end, None) for end in ("low", "high")]
            return _Range(*(default if end is None else end for end, default in zip(ends, _ANY, strict=True)))
        case Op("mean" | "min" | "max", (body,)):
            return _range(body, known)
        case Op("neg", (body,)):
            low, high = _range(body, known)
            return _Range(-high, -low)
        case Op("+" | "-" | "*" | "/" as sign, (left, right)):
            return _combined(sign, _range(left, known), _range(right, known))
    return _ANY


def _combined(sign: str, left: _Range, right: _Range) -> _Range:
    if sign == "/" and right.low <= 0 <= right.high:
        return _ANY
    ends = [float(SIGNS[sign](one, other)) for one in left for other in right]
    return _ANY if any(map(math.isnan, ends)) else _Range(min(ends), max(ends))


def _about(node: Node, known: Mapping[str, type[Score]]) -> str:
    """Return the ranges of the scores of a comparison."""
    return ", ".join(f"{call} is {range_text(known[call.name])}" for call in dict.fromkeys(calls_of(node)))


def range_text(score: type[Score]) -> str:
    """Return the range of a score in words."""
    if score.low is None or score.high is None:
        end, word = (score.high, "at most") if score.low is None else (score.low, "at least")
        return "any number" if end is None else f"{word} {end:g}"
    return f"from {score.low:g} to {score.high:g}"


def _hint(node: Node, known: Mapping[str, type[Score]]) -> str:
    """Return the comparison with a share where a percentage was written."""
    match node:
        case Compare((sign,), (NameRef(call) as name, Literal(value))):
            score = known[call.name]
            if score.high == 1 and not isinstance(value, str) and 1 < value <= 100:
                return f"write {printed(Compare((sign,), (name, Literal(value / 100))))}"
    return "scores and their ranges: wdsflow scores"


_SHARE = re.compile(r"(.+?)\s+(top|bottom)\s+(\d+\.?\d*|\.\d+)\s*%(\s+of\s+kept)?", re.DOTALL)


@dataclass(frozen=True)
class RankedNumber:
    """The number of a ``rank_percent``. ``calls`` are the scores from which it is computed."""

    score: RankPercent
    node: Node

    @property
    def calls(self) -> tuple[Call, ...]:
        """The scores of the number, each once."""
        return tuple(dict.fromkeys(calls_of(self.node)))

    def record(self, values: Mapping[Call, object], key: str) -> bytes | Unknown | None:
        """Return the bytes by which a sample is ranked, why there are none, or None while a score is missing."""
        found = runner(Op("min" if self.score.end == "top" else "max", (self.node,), "number"))(values)
        if found is PENDING or isinstance(found, Unknown):
            return None if found is PENDING else found
        assert isinstance(found, (int, float))
        try:
            return self.score.record(float(found), key)
        except OverflowError:
            return Unknown("overflow")


def ranked_number(score: RankPercent, names: Mapping[str, type[Score]]) -> RankedNumber:
    """Return the number by which a score ranks. Raises ValueError if ``of`` is not one."""
    try:
        terms = parse(f"({score.of}) is null", names).terms
    except WhereError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"cannot rank by {score.of!r}: {error.detail}{hint}") from None
    node = tested_for_null(terms)
    if node is None or node.kind != "number" or not [*calls_of(node)]:
        raise ValueError(f"cannot rank by {score.of!r}: it is not a number of a sample, such as clip_similarity")
    known = {**FACTS, **names}
    compares = next((call for call in calls_of(node) if issubclass(known[call.name], DatasetScore)), None)
    if compares is not None:
        raise ValueError(f"cannot rank by {compares}: it compares samples itself")
    return RankedNumber(score, node)


def share_predicate(text: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for a share, such as ``clip_similarity top 30%`` or ``blur bottom 10% of kept``.

    Raises ValueError.
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None or not 0 < float(found[3]) <= 100:
        raise ValueError(
            f'--keep {text!r} is not a share: write it as "clip_similarity top 30%" or "caption_words bottom 10% of kept"'
        )
    settings: dict[str, Any] = {"end": "bottom"} if found[2] == "bottom" else {}
    settings |= {"among": "kept"} if found[4] else {}
    number = ranked_number(RankPercent(of=found[1], **settings), names)
    call = Call(RankPercent.name, tuple(sorted({**settings, "of": printed(number.node)}.items())))
    return f"{call} <= {found[3]}"


_NEAR = {"phash": ("phash_distance", 4), "embeddings": ("embedding_distance", 0.07)}  # as near as duplicates


def far_predicate(path: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for images that are not near those of a list: see ``reference_lists``. Raises ValueError."""
    del names  # those of the catalog
    found = read_list("--near", path)
    name, near = _NEAR[found.kind]
    return f"{Call(name, tuple(sorted({**found.about.get('settings', {}), 'file': path}.items())))} > {near}"


def with_columns(where: str, there: Collection[Call]) -> str:
    """Return a predicate in which bare names of scores are those of columns; a score that has a column keeps its name.

    >>> with_columns("blur > 10", [Call("blur", (("decode", "exact"),))])
    'blur(decode="exact") > 10'

    Raises WhereError if several columns have the name.
    """
    if not where.strip():
        return where
    terms = parse(where, all_scores()).terms
    node = Op("and", tuple(term.node for term in terms)) if len(terms) > 1 else terms[0].node
    names = {call: _column(call, there, where) for call in calls_of(node)}
    return where if all(old == new for old, new in names.items()) else printed(_renamed(node, names))


def _column(call: Call, there: Collection[Call], where: str) -> Call:
    if call.name == RankPercent.name:
        number = ranked_number(RankPercent(**dict(call.settings)), all_scores())  # type: ignore[arg-type]
        names = {each: _column(each, there, where) for each in number.calls}
        of = printed(_renamed(number.node, names))
        return call._replace(settings=tuple((name, of if name == "of" else value) for name, value in call.settings))
    if call in there or call.settings or any(gathers_like(call, other) for other in there):
        return call
    found = [other for other in there if other.name == call.name]
    if len(found) > 1:
        start = max(where.find(call.name), 0)
        listed = ", ".join(sorted(map(str, found)))
        detail = f"the ledgers have {len(found)} columns of the name {call.name}"
        raise WhereError(where, start, start + len(call.name), detail, f"name one of them: {listed}")
    return found[0] if found else call


def gathers_like(call: Call, other: Call) -> bool:
    """Return whether samples can be compared by a score with the data that was gathered for another one."""
    if call.name != other.name or not issubclass(all_scores().get(call.name, Score), DatasetScore):
        return False
    one, two = (make_score(each.name, **dict(each.settings)) for each in (call, other))
    return isinstance(one, DatasetScore) and isinstance(two, DatasetScore) and one.gathers() == two.gathers()


def _renamed(node: Node, names: Mapping[Call, Call]) -> Node:
    """Return a tree with other scores."""
    if isinstance(node, NameRef):
        return replace(node, call=names[node.call])
    if isinstance(node, Literal):
        return node
    return replace(node, items=tuple(_renamed(item, names) for item in node.items))
