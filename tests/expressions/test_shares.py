"""Shares of all samples, and the numbers by which they are ranked."""

import pytest

from tests.expressions.catalog import CATALOG
from wdsflow.expressions.shares import ranked_number, share_predicate


@pytest.mark.parametrize(
    ("share", "predicate"),
    [
        ("similarity top 30%", 'rank_percent(of="similarity") <= 30'),
        (
            "  blur   bottom .5 % of kept ",
            'rank_percent(among="kept", end="bottom", of="blur") <= .5',
        ),
        ("width/height top 10%", 'rank_percent(of="width / height") <= 10'),
        (
            "zero_shot(labels=['a \"b\"']) top 5%",
            'rank_percent(of="zero_shot(labels=(\\"a \\\\\\"b\\\\\\"\\",))") <= 5',
        ),
    ],
)
def test_a_share_is_short_for_a_term(share: str, predicate: str) -> None:
    assert share_predicate(share, CATALOG) == predicate


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ("similarity", 'is not a share: write it as "clip_similarity top 30%"'),
        ("similarity top 0%", "is not a share"),
        ("similarity top 101%", "is not a share"),
        (
            "simlarity top 3%",
            "cannot rank by 'simlarity': no score is called 'simlarity'; did you mean similarity?",
        ),
        ("caption top 3%", "cannot rank by 'caption': it is a text, not a number"),
        ("duplicate top 3%", "it is a condition, not a number"),
        ("3 top 3%", "it is not a number of a sample, such as clip_similarity"),
        ("(1 if duplicate else 0) top 3%", "cannot rank by duplicate: it compares samples itself"),
    ],
)
def test_what_is_no_share_is_refused(share: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        share_predicate(share, CATALOG)
    assert words in str(refused.value)


def test_the_number_of_a_rank_is_an_expression() -> None:
    number = ranked_number("width / height", CATALOG)
    assert [str(call) for call in number.scores] == ["width", "height"]
