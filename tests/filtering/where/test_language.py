import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filtering.where.predicates import SCORES, plain_values, predicates
from wdsflow.filtering.where.predicate import parse
from wdsflow.filtering.where.values import Call


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("min(width)>=200 AND   not duplicate", "min(width) >= 200 and not duplicate"),
        ("width = 3 Or height == 4.0", "width == 3 or height == 4.0"),
        ("bytes < 1.5MB and bytes >= 200KiB", "bytes < 1500000 and bytes >= 204800"),
        ("width between 200 and 4_000", "200 <= width <= 4000"),
        ("width not between 1 and 2", "not 1 <= width <= 2"),
        ("language in ('en', \"de\",)", 'language in ("en", "de")'),
        ("not language in ('en')", 'language not in ("en")'),
        ("'dog' not in lower(caption)", 'not contains(lower(caption), "dog")'),
        ("(width > 1 and height > 1) and blur > 2", "width > 1 and height > 1 and blur > 2"),
        ("width > 1 or height > 1 and blur > 2", "width > 1 or height > 1 and blur > 2"),
        ("(width > 1 or height > 1) and blur > 2", "(width > 1 or height > 1) and blur > 2"),
        ("not (width > 1 or duplicate)", "not (width > 1 or duplicate)"),
        ("not width > 1", "not width > 1"),
        ("(width - height) - (blur - 1) < -2 * -(blur + 3)", "width - height - (blur - 1) < -2 * -(blur + 3)"),
        ("(width % 2) * 3 // (4 * blur) == 0", "width % 2 * 3 // (4 * blur) == 0"),
        ("width / height is not null", "width / height is not null"),
        ("not blur is null", "blur is not null"),
        ("any(similarity) > .3", "any(similarity > 0.3)"),
        ("any(width > 1 and height > 1)", "any(width > 1 and height > 1)"),
        ("any(width) not in (1, 2)", "any(width not in (1, 2))"),
        ("any(width) is not null", "any(width is not null)"),
        ("all(width) not between 1 and 2", "all(not 1 <= width <= 2)"),
        ("'dog' not in any(caption)", 'any(not contains(caption, "dog"))'),
        ("any(caption) in 'cats and dogs'", 'any(contains("cats and dogs", caption))'),
        ("'dog' in (caption)", 'contains(caption, "dog")'),
        ("200 <= all(width) < 300", "all(200 <= width < 300)"),
        ("near_duplicate(distance = 3)", "near_duplicate(distance=3)"),
        ("near_duplicate()", "near_duplicate"),
        ("near_duplicate(fields=('a','b'), distance=1)", 'near_duplicate(distance=1, fields=("a", "b"))'),
        ("has('json')", 'has(field="json")'),
        ("(width > 1) == duplicate", "(width > 1) == duplicate"),
        ("width > 1 and width > 1.0e0", "width > 1"),
        (r"key != 'it\'s \\ \d'", r'key != "it\'s \\ \\d"'.replace(r"\'", "'")),
        ("true", "true"),
    ],
)
def test_a_predicate_has_one_canonical_form(text, canonical):
    where = parse(text, SCORES)
    assert str(where) == canonical
    assert parse(canonical, SCORES) == where


@given(predicates)
def test_the_canonical_form_means_the_same(text):
    where = parse(text, SCORES)
    again = parse(str(where), SCORES)
    assert again == where
    assert str(again) == str(where)
    assert again.calls == where.calls


PYTHON = st.recursive(
    st.sampled_from(["width < height", "1 <= width < height < 3", "duplicate", "blur * 2 - width != height % 3 + 1"])
    | st.sampled_from(["width in (1, 2)", "-width // 2 == - - height", "has_url", "width - (blur - 2) >= 1 == height"])
    | st.sampled_from(["width / (height - 1) > blur", "(width > 1) == duplicate != has_url", "language == 'cat'"]),
    lambda inner: (
        st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not {}".format, inner)
        | st.builds("({})".format, inner)
    ),
    max_leaves=8,
)


@given(PYTHON, plain_values)
def test_what_python_can_say_means_what_it_means_in_python(text, values):
    names = {call.name: value for call, value in values.items() if not call.settings}
    names = {name: value for name, value in names.items() if value != float("inf")}
    try:
        expected = eval(text, {}, names)
    except (NameError, ZeroDivisionError):
        return
    assert parse(text, SCORES).judge(values).keep is expected


def test_terms_are_the_top_level_conjuncts_as_they_were_written():
    where = parse("min(width)>=200  and\n (bytes < 1.5MB or not duplicate) and (height > 1 and blur > 2)", SCORES)
    assert [term.text for term in where.terms] == [
        "min(width)>=200",
        "(bytes < 1.5MB or not duplicate)",
        "height > 1",
        "blur > 2",
    ]
    assert [str(term) for term in where.terms][1] == "(bytes < 1500000 or not duplicate)"
    assert where.terms[1].calls == (Call("bytes"), Call("duplicate"))


def test_scores_with_other_settings_are_other_scores():
    where = parse("not near_duplicate and not near_duplicate(distance=3) and caption != ''", SCORES)
    assert where.calls == (Call("near_duplicate"), Call("near_duplicate", (("distance", 3),)), Call("caption"))
    assert [str(call) for call in where.calls] == ["near_duplicate", "near_duplicate(distance=3)", "caption"]


def test_a_score_hides_a_fact_of_the_same_name():
    scores = {**SCORES, "key": SCORES["width"]}
    assert parse("key > 3", scores).calls == (Call("key"),)
