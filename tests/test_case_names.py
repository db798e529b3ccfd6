"""Names of test cases are the same in each process."""

import pytest

from tests.case_names import refuse_addresses, without_address

pytest_plugins = ["pytester"]
TESTS = """
import pytest
from tests.case_names import without_address

@pytest.mark.parametrize("value", [object()], ids=str)
def test_named_by_address(value): ...

@pytest.mark.parametrize("value", [object()], ids=without_address)
def test_named_by_class(value): ...
"""


def test_a_name_with_an_address_is_refused(pytester: pytest.Pytester) -> None:
    by_address, by_class = pytester.getitems(TESTS)

    refuse_addresses([by_class])
    with pytest.raises(pytest.UsageError, match=r"test_named_by_address.*0x") as refusal:
        refuse_addresses([by_address, by_class])

    assert "test_named_by_class" not in str(refusal.value)


def test_the_rest_of_a_text_stays() -> None:
    assert without_address([TESTS, "x at 0x7f12ab"]) == str([TESTS, "x"])
