"""The order of work decides what is computed, never what comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filtering.where.predicates import KINDS, SCORES, predicates, values
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import PENDING
from wdsflow.filtering.where.evaluate_predicate import judge
from wdsflow.filtering.where.predicate_planner import TIER_SECONDS, explain, pilot_of, plan


@pytest.mark.deep
@given(predicates, values, st.permutations(list(KINDS)))
def test_what_is_settled_by_some_scores_is_what_all_scores_say(text, known, order):
    where = parse(text, SCORES)
    last = where.judge(known)
    assert last.settled
    some = {}
    for call in [None, *order]:
        if call is not None:
            some[call] = known[call]
        found = where.judge(some)
        if found.settled:
            assert (found.keep, found.unknown) == (last.keep, last.unknown)


@given(predicates, values, st.data())
def test_every_plan_has_the_same_outcome(text, known, data):
    where = parse(text, SCORES)
    late = data.draw(st.sets(st.sampled_from(where.calls))) if where.calls else set()
    for order in (plan(where), plan(where, last=late)):
        assert sorted(map(str, order.terms)) == sorted(map(str, where.terms))
        outcome, computed = order.drive(known.__getitem__)
        assert outcome.keep is where.judge(known).keep
        assert (outcome.unknown is None) is (where.judge(known).unknown is None)
        assert outcome == order.settle(known) == order.settle(computed)
        assert (outcome, computed) == one_by_one(order, known)


def one_by_one(order, known):
    """Do what `drive` does by the other two functions, as batches do."""
    some = {}
    while (call := order.next_needed(some)) is not None:
        assert call not in some
        some[call] = known[call]
    return judge(order.terms, some), some


def test_cheap_scores_come_first_and_none_after_the_decision():
    where = parse(
        "similarity > 0.3 and (blur > 2 or words_in_caption > 9) and words_in_caption > 2 and width > 3", SCORES
    )
    order = plan(where)
    assert [str(term) for term in order.terms] == [
        "width > 3",
        "words_in_caption > 2",
        "(blur > 2 or words_in_caption > 9)",
        "similarity > 0.3",
    ]
    sample = {
        ScoreCall("width"): 4,
        ScoreCall("words_in_caption"): 10,
        ScoreCall("similarity"): 0.1,
        ScoreCall("blur"): 0,
    }
    outcome, computed = order.drive(sample.__getitem__)
    assert outcome.term == where.terms[0]
    assert list(computed) == [
        ScoreCall("width"),
        ScoreCall("words_in_caption"),
        ScoreCall("similarity"),
    ]  # 10 words: no blur
    outcome, computed = order.drive({**sample, ScoreCall("width"): 3}.__getitem__)
    assert outcome.term == where.terms[3]
    assert list(computed) == [ScoreCall("width")]


def test_scores_that_are_known_late_come_last_and_equals_stay_in_order():
    where = parse("width > 1 and height > 1 and blur > 1", SCORES)
    width, height, blur = where.terms
    assert plan(where).terms == (width, height, blur)
    assert plan(where, last={where.calls[0]}).terms == (height, blur, width)


def test_scores_that_terms_share_are_paid_once():
    where = parse("blur > 1 and similarity > 1 and blur < 9", SCORES)
    order = plan(where)
    assert [(str(step.term), step.cost) for step in order.steps] == [
        ("blur > 1", TIER_SECONDS["pixels"]),
        ("blur < 9", 0.0),
        ("similarity > 1", TIER_SECONDS["model"]),
    ]


def test_a_score_that_comes_later_leaves_a_sample_open_but_computes_the_rest():
    where = parse("not duplicate and similarity > 0.3", SCORES)
    order = plan(where, last={ScoreCall("duplicate")})
    known = {ScoreCall("duplicate"): PENDING, ScoreCall("similarity"): 0.5}
    outcome, computed = order.drive(known.__getitem__)
    assert not outcome.settled
    assert computed == {ScoreCall("similarity"): 0.5}
    assert order.next_needed(computed) == ScoreCall("duplicate")
    assert order.settle({**computed, ScoreCall("duplicate"): True}).term == where.terms[0]
    assert order.settle({ScoreCall("duplicate"): True}).keep is False  # what is there may do


def test_a_plan_names_the_term_that_it_stops_at_however_much_is_known():
    where = parse("(blur > 1 or width > 1) and width > 2", SCORES)
    everything = {ScoreCall("blur"): 0, ScoreCall("width"): 0}
    assert plan(where).settle(everything).term == where.terms[1]  # the width alone decides
    assert plan(where).drive(everything.__getitem__)[1] == {ScoreCall("width"): 0}
    assert where.judge(everything).term == where.terms[0]


def test_a_pilot_counts_what_passes_and_explains_the_plan():
    where = parse("width > 1 and height > 1 and blur > 1", SCORES)
    width, height, blur = where.calls
    rows = [{width: at % 2 * 2, height: at % 4, blur: 2 if at else None} for at in range(100)]
    pilot = pilot_of(where, rows, {width: 1e-3, height: 2e-3, blur: 0.5})
    assert [pilot.reaching((term,)) for term in where.terms] == [0.5, 0.5, 1.0]
    assert pilot.reaching(where.terms[:2]) == 0.25
    lines = explain(plan(where), pilot).splitlines()
    assert lines[1].split() == ["1", "width", ">", "1", "width", "header", "1", "ms", "50.0%", "100.0%"]
    assert lines[3].split() == ["3", "blur", ">", "1", "blur", "pixels", "500", "ms", "100.0%", "25.0%"]
    assert lines[4] == (
        "measured on 100 samples; on average 127 ms per sample, with every score for every sample 503 ms;"
        " 25.0% pass all terms"
    )
