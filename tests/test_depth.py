"""Which cases of a test the gate runs."""

import pytest

from tests.depth import refuse_both

pytest_plugins = ["pytester"]
TESTS = """
import pytest

@pytest.mark.sample(1)
@pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_fine(case): ...

@pytest.mark.deep
def test_slow(): ...
"""


def test_of_cases_of_which_some_are_deep_the_gate_runs_others(pytester):
    items = pytester.getitems(TESTS)
    refuse_both(items)
    refuse_both([item for item in items if item.name == "test_fine[2]"])  # asked for alone


@pytest.mark.parametrize("where", ["function", "class", "module"])
def test_a_test_that_is_deep_and_sampled_is_refused_by_its_name(pytester, where):
    deep = {
        place: "pytest.mark.deep" if place == where else "lambda each: each"
        for place in ("function", "class")
    }
    items = pytester.getitems(
        f"""
import pytest
pytestmark = {"pytest.mark.deep" if where == "module" else []}

@{deep["class"]}
class TestBoth:
    @{deep["function"]}
    @pytest.mark.sample(1)
    @pytest.mark.parametrize("case", [1, 2])
    def test_both(self, case): ...
"""
    )
    with pytest.raises(pytest.UsageError, match=r"TestBoth::test_both$"):
        refuse_both(items)
