"""Shares of all samples, such as ``clip_similarity top 30%``.

Also the numbers by which samples are ranked.
"""

import re
from collections.abc import Mapping

from .errors import ExpressionError
from .expression import Expression
from .parsing import parse_number
from .score_call import ScoreCall, ScoreType, Setting

RANK = "rank_percent"

_SHARE = re.compile(r"(.+?)\s+(top|bottom)\s+(\d+\.?\d*|\.\d+)\s*%(\s+of\s+kept)?", re.DOTALL)


def share_predicate(text: str, catalog: Mapping[str, ScoreType]) -> str:
    """Return the predicate for a share, such as ``clip_similarity top 30%``.

    A share may be one of the kept samples: ``blur bottom 10% of kept``.

    Raises ValueError if it is not a share, or of something that is not a number.
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[3]) <= 100:
        example = '"clip_similarity top 30%" or "caption_words bottom 10% of kept"'
        raise ValueError(f"--keep {text!r} is not a share: write it as {example}")
    number, end, percent, of_kept = match.groups()
    settings: dict[str, Setting] = {"of": str(ranked_number(number, catalog))}
    if end == "bottom":
        settings["end"] = end
    if of_kept:
        settings["among"] = "kept"
    return f"{ScoreCall(RANK, tuple(sorted(settings.items())))} <= {percent}"


def ranked_number(text: str, catalog: Mapping[str, ScoreType]) -> Expression:
    """Return the number by which samples are ranked: the setting ``of`` of ``rank_percent``.

    Raises ValueError if it is not a number of a sample.
    """
    try:
        number = parse_number(text, catalog)
    except ExpressionError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"cannot rank by {text!r}: {error.detail}{hint}") from None
    if not number.scores:
        raise ValueError(
            f"cannot rank by {text!r}: it is not a number of a sample, such as clip_similarity"
        )
    for call in number.scores:
        if hasattr(catalog[call.name], "compares"):
            raise ValueError(f"cannot rank by {call}: it compares samples itself")
    return number
