"""Drop: fields go, samples stay."""

import pytest

from wdsflow.stages import Drop, StageError


def test_fields_go_and_webdatasets_own_stay():
    stage = Drop(("json", "thumb"))
    assert list(stage([{"__key__": "a", "json": 1, "txt": 2}])) == [{"__key__": "a", "txt": 2}]
    assert stage.reads == set()
    assert stage.removes == {"json", "thumb"}


def test_a_missing_field_is_an_error_where_asked():
    stage = Drop("json", on_missing="raise")
    with pytest.raises(StageError, match="its fields: 'txt'") as caught:
        list(stage([{"__key__": "a", "txt": 2}]))
    assert caught.value.slug == "no-json"
    assert stage.reads == {"json"}


@pytest.mark.parametrize("fields", ["", "__key__", ("txt", "__url__")])
def test_what_is_not_for_stages_to_remove_is_refused(fields):
    with pytest.raises(ValueError, match=r"field|webdataset"):
        Drop(fields)
