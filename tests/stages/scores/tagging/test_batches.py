import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.stages.scores.model.tagging.caption_sentences import (
    LONGEST_WORD,
    UNKNOWN,
    refusal,
    split_sentence,
)
from wdsflow.stages.scores.model.tagging.tagging_batches import (
    WASTE,
    Shape,
    TaggingBudget,
    batches,
    shape_of,
)

WORDS = st.lists(
    st.sampled_from(["a", "dog", "x" * 30, "y" * 900, "z" * 1001, "<PAD>"]), min_size=1, max_size=40
)


def cells_of(shapes):
    """Return the padded size of the sentences, in words and in characters.

    Characters are counted twice: with each word padded, and with each sentence padded.
    """
    return (
        len(shapes) * max(shape.words for shape in shapes),
        sum(shape.words for shape in shapes) * max(shape.longest for shape in shapes),
        len(shapes) * max(shape.characters for shape in shapes),
    )


def of(count, length=5):
    return shape_of(["w" * length] * count)


@given(st.lists(WORDS, max_size=30), st.integers(1, 300), st.integers(5, 20_000))
def test_every_sentence_is_in_one_batch_and_only_one_that_is_larger_itself_goes_beyond_the_budget(
    sentences, words, characters
):
    shapes, budget = [shape_of(each) for each in sentences], TaggingBudget(words, characters)
    made = batches(shapes, budget)
    assert sorted(at for batch in made for at in batch) == list(range(len(shapes)))
    for batch in made:
        cells = cells_of([shapes[at] for at in batch])
        assert len(batch) == 1 or budget.fits(*cells)
        assert cells[0] <= WASTE * sum(shapes[at].words for at in batch)


@given(st.lists(WORDS, max_size=12), st.integers(1, 30), st.integers(1_010, 20_000))
def test_pieces_are_within_the_budget_and_together_the_sentence(
    sentences, most_words, most_characters
):
    for words in sentences:
        made = split_sentence(words, most_words, most_characters)
        for piece in made:
            assert len(piece) <= most_words
            assert TaggingBudget(most_words, most_characters).fits(*cells_of([shape_of(piece)]))
        odd = {"z" * 1001, "<PAD>"}
        assert [word for piece in made for word in piece] == [
            UNKNOWN if word in odd else word for word in words
        ]
        if refusal([words], most_words, most_characters) is None:
            assert len(made) == 1


def test_a_sum_within_the_budget_is_not_enough():
    shapes = [of(1)] * 248 + [of(4_800)]
    budget = TaggingBudget()
    made = batches(shapes, budget)
    assert [len(batch) for batch in made] == [1, 248]
    assert all(budget.fits(*cells_of([shapes[at] for at in batch])) for batch in made)
    padded = sum(cells_of([shapes[at] for at in batch])[0] for batch in made)
    assert padded <= 1.2 * sum(shape.words for shape in shapes)


def test_a_long_word_bounds_how_many_words_share_a_batch():
    shapes = [of(50)] * 20 + [Shape(50, 1_000, 1_300)]
    made = batches(shapes, TaggingBudget())
    assert max(cells_of([shapes[at] for at in batch])[1] for batch in made) <= 100_000
    assert [len(batch) for batch in made] == [2, 19]


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["a"] * 11, "long-sentence"),
        (["a" * 1001], "long-word"),
        (["a" * 1000] * 10, "long-sentence"),
        (["a"] * 10, None),
    ],
)
def test_refusals_say_what_is_too_long(words, slug):
    found = refusal([["a"], words], 10, 9 * LONGEST_WORD)
    assert (found.slug if found else None) == slug


@pytest.mark.parametrize(
    ("words", "most_words", "most_characters", "slug"),
    [
        (["ab"] * 3, 3, 10, None),
        (["ab"] * 3, 3, 9, "long-sentence"),  # three words of two characters, each with a space
        (["ab"] * 3, 2, 99, "long-sentence"),
        (["a" * LONGEST_WORD], 3, 9_999, None),
        (["a" * (LONGEST_WORD + 1)], 3, 9_999, "long-word"),
    ],
)
def test_a_sentence_is_refused_as_soon_as_it_is_above_a_bound(
    words, most_words, most_characters, slug
):
    found = refusal([["a"], words], most_words, most_characters)
    assert (found and found.slug) == slug
    whole = [words] if len(words[0]) <= LONGEST_WORD else [[UNKNOWN]]
    assert (split_sentence(words, most_words, most_characters) == whole) is (
        slug in {None, "long-word"}
    )
