"""HasFields: the first field that is missing is counted."""

import pytest

from wdsflow.stages import HasFields


def test_samples_with_any_alternative_of_each_field_are_kept():
    stage = HasFields(("jpg;png", "txt"))
    samples = [
        {"__key__": "a", "jpg": 1, "txt": 1},
        {"__key__": "b", "png": 1, "txt": None},
        {"__key__": "c", "txt": 1},
    ]
    assert [
        sample["__key__"]
        for sample in stage([*samples, {"__key__": "d", "jpg": 1}, {"__key__": "e"}])
    ] == [
        "a",
        "b",
    ]
    assert stage.counts.dropped == {"no-jpg;png": 2, "no-txt": 1}


def test_one_name_and_names_one_by_one_are_the_same_as_a_tuple():
    assert HasFields("jpg; png") == HasFields(("jpg;png",))
    assert HasFields.of("jpg", "txt") == HasFields(("jpg", "txt"))


@pytest.mark.parametrize("fields", [(), "", ("jpg", ""), ("__key__",)])
def test_no_field_is_refused(fields):
    with pytest.raises(ValueError, match=r"field|webdataset"):
        HasFields(fields)
