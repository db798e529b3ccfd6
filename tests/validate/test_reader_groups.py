"""The groups of readers that golden files name."""

from tests.validate.reader_groups import reader_groups


def test_the_largest_group_is_all_others() -> None:
    texts = {"timm": "stalls", "datasets": "trains", "ray-data": "trains"}
    assert reader_groups(texts) == [("timm", "stalls"), ("all others", "trains")]


def test_a_reader_alone_keeps_its_name() -> None:
    assert reader_groups({"timm": "stalls"}) == [("timm", "stalls")]
