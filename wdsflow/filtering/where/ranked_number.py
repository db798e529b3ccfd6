"""The number by which samples are ranked, and shares to keep as predicates: ``clip_similarity top 30%``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wdsflow.filtering.where.language.tokens import WhereError
from wdsflow.filtering.where.language.tree import IsNull, Node, Reduce, calls_of, printed
from wdsflow.filtering.where.language.values import PENDING, Call, Unknown
from wdsflow.stages.scores.base import DatasetScore, Score

from .evaluate_predicate import runner
from .known_facts import FACTS
from .predicate import parse
from .rank_percent import RankPercent

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

    def record(self, values: Mapping[Call, Any], key: str) -> bytes | Unknown | None:
        """Return the bytes by which a sample is ranked, why there are none, or None while a score is missing."""
        found: Any = runner(Reduce("min" if self.score.end == "top" else "max", self.node))(values)
        if found is PENDING or isinstance(found, Unknown):
            return None if found is PENDING else found
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
    node = terms[0].node
    if len(terms) > 1 or not isinstance(node, IsNull) or node.body.kind != "number" or not [*calls_of(node)]:
        raise ValueError(f"cannot rank by {score.of!r}: it is not a number of a sample, such as clip_similarity")
    known = {**FACTS, **names}
    compares = next((call for call in calls_of(node) if issubclass(known[call.name], DatasetScore)), None)
    if compares is not None:
        raise ValueError(f"cannot rank by {compares}: it compares samples itself")
    return RankedNumber(score, node.body)


def share_predicate(text: str, names: Mapping[str, type[Score]]) -> str:
    """Return the predicate for a share, such as ``clip_similarity top 30%`` or ``blur bottom 10% of kept``.

    Raises ValueError.
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None or not 0 < float(found[3]) <= 100:
        raise ValueError(
            f'--keep {text!r} is not a share: write it as "clip_similarity top 30%" or "caption_words bottom 10% of kept"'
        )
    settings: dict[str, Any] = {"of": found[1]}
    settings |= {"end": found[2]} if found[2] == "bottom" else {}
    settings |= {"among": "kept"} if found[4] else {}
    number = ranked_number(RankPercent(**settings), names)
    call = Call(RankPercent.name, tuple(sorted({**settings, "of": printed(number.node)}.items())))
    return f"{call} <= {found[3]}"
