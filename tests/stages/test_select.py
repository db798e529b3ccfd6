"""Select: a predicate that workers can import, whose errors have a place."""

from operator import itemgetter, methodcaller

import pytest

from wdsflow.stages import Select, StageError


def test_samples_for_which_the_predicate_is_true_are_kept():
    stage = Select(methodcaller("get", "good"), "bad")
    samples = [{"__key__": "a", "good": 1}, {"__key__": "b", "good": 0}, {"__key__": "c"}]
    assert [sample["__key__"] for sample in stage(samples)] == ["a"]
    assert stage.counts.dropped == {"bad": 2}


def test_what_the_predicate_raises_ends_the_run_with_the_place():
    stage = Select(itemgetter("good"))
    with pytest.raises(
        StageError,
        match=r"select: sample 'a' of 'x.tar': the predicate \w+ raised KeyError: 'good'",
    ):
        list(stage([{"__key__": "a", "__url__": "x.tar"}]))


def test_what_the_predicate_raises_is_counted_by_its_name_where_asked():
    stage = Select(itemgetter("good"), on_error="drop")
    assert len(list(stage([{"__key__": "a"}, {"__key__": "b", "good": 1}]))) == 1
    assert stage.counts.failed == {"KeyError": 1}


def test_a_predicate_that_cannot_be_pickled_is_refused_when_the_stage_is_built():
    def local(sample: dict[str, object]) -> bool:
        return True

    for predicate in (lambda sample: True, local):
        with pytest.raises(ValueError, match="define it with def at the top of a module"):
            Select(predicate)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="not str"):
        Select("good")
