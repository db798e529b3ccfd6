"""The order of work: cheap scores first, models one by one, comparisons last."""

from tests.expressions.catalog import CATALOG
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.steps import steps_of, terms_by_cost


def test_cheap_tiers_are_steps_and_each_score_of_pixels_and_each_model_is_one() -> None:
    text = "zero_shot > 0.5 and similarity > 0.3 and not duplicate and brightness > 0 and blur > 2 and words_in_caption > 2"
    steps = steps_of(parse(f"{text} and height > 3 and width > 3", CATALOG))
    assert [(step.tier, [str(call) for call in step.scores]) for step in steps] == [
        ("header", ["height", "width"]),
        ("text", ["words_in_caption"]),
        ("pixels", ["brightness"]),
        ("pixels", ["blur"]),
        ("model", ["zero_shot"]),
        ("model", ["similarity"]),
        ("compared", ["duplicate"]),
    ]


def test_scores_that_compare_what_other_terms_keep_come_last() -> None:
    expression = parse("not near_duplicate(among='kept') and not duplicate", CATALOG)
    kept = ScoreCall("near_duplicate", (("among", "kept"),))
    assert [step.scores for step in steps_of(expression, [kept])] == [
        (ScoreCall("duplicate"),),
        (kept,),
    ]


def test_terms_are_asked_by_their_most_expensive_score_and_equals_in_the_order_of_the_text() -> (
    None
):
    text = "similarity > 0.3 and (blur > 2 or words_in_caption > 9) and words_in_caption > 2 and width > 3 and True"
    assert [str(term) for term in terms_by_cost(parse(text, CATALOG))] == [
        "width > 3",
        "True",
        "words_in_caption > 2",
        "(blur > 2 or words_in_caption > 9)",
        "similarity > 0.3",
    ]
    assert [
        str(term)
        for term in terms_by_cost(parse("not duplicate and height > 1 and width > 1", CATALOG))
    ] == [
        "height > 1",
        "width > 1",
        "not duplicate",
    ]
