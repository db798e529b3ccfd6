"""The evaluator's result for each row of a window.

A row is kept, or dropped by a term, or unknown because a value is missing.
"""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.expressions.catalog import CATALOG
from tests.expressions.tables import window
from wdsflow.expressions.evaluator import Columns, Evaluator
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.score_call import ScoreCall

WIDTH, HEIGHT, BLUR, SIMILARITY = map(ScoreCall, ("width", "height", "blur", "similarity"))


class Stream:
    """A table that can be read once, through the Arrow stream interface alone.

    It belongs to no library.
    """

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table, self._table = self._table, None
        assert table is not None, "it was read already"
        return table.__arrow_c_stream__(requested_schema)


def test_a_dropped_row_has_its_first_false_term_and_an_unknown_one_its_first_unknown_term() -> None:
    evaluator = Evaluator(parse("similarity > 0.3 and width > 1 and blur > 1", CATALOG))
    assert [str(term) for term in evaluator.terms] == ["width > 1", "blur > 1", "similarity > 0.3"]
    table = window(
        {
            "width": [2, 0, 0, 2, None],
            "blur": [2, 0, None, None, 2],
            "similarity": [1, 0, 0, None, None],
        }
    )
    decisions = evaluator.evaluate(table, missing=[WIDTH, BLUR, SIMILARITY])
    assert decisions.keep.tolist() == [True, False, False, False, False]
    assert decisions.drop.tolist() == [False, True, True, False, False]
    assert decisions.unknown.tolist() == [False, False, False, True, True]
    assert decisions.term.tolist() == [-1, 0, 0, 1, 0]
    assert {str(call): rows.nonzero()[0].tolist() for call, rows in decisions.missing.items()} == {
        "width": [4],
        "blur": [3],
        "similarity": [3, 4],
    }


def test_threads_share_an_evaluator() -> None:
    evaluator = Evaluator(parse("width > 1 and (blur + 1) * (blur + 1) < 1e9", CATALOG))
    table = window({"width": np.arange(20_000.0), "blur": np.arange(20_000.0)})

    def kept(_: int) -> int:
        return int(evaluator.evaluate(table).keep.sum())

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(kept, range(40))) == {19_998}


def test_the_order_of_terms_names_the_reason_and_changes_nothing_else() -> None:
    expression = parse("width > 1 and height > 1", CATALOG)
    table = window({"width": [0, 0, 2], "height": [0, 2, 2]})
    one = Evaluator(expression).evaluate(table)
    other = Evaluator(expression, expression.terms[::-1]).evaluate(table)
    assert one.term.tolist() == [0, 0, -1]
    assert other.term.tolist() == [0, 1, -1]
    assert one.keep.tolist() == other.keep.tolist()


def test_scores_that_are_not_computed_are_unknown_and_only_rows_that_need_them_lack_them() -> None:
    evaluator = Evaluator(parse("(width > 10 or similarity > 0.5) and height > 1", CATALOG))
    table = window({"width": [11, 1, 1, None], "height": [2, 2, 0, 2]})
    decisions = evaluator.evaluate(table, computed=[WIDTH, HEIGHT], missing=[SIMILARITY, WIDTH])
    assert decisions.keep.tolist() == [True, False, False, False]
    assert decisions.drop.tolist() == [False, False, True, False]
    assert decisions.missing[SIMILARITY].tolist() == [False, True, False, True]
    assert decisions.missing[WIDTH].tolist() == [False, False, False, True]


def test_a_value_of_a_score_that_counts_as_not_computed_is_not_looked_at() -> None:
    evaluator = Evaluator(parse("width > 1 and blur > 1", CATALOG))
    table = window({"width": [2, 0], "blur": [0, 0]})
    assert evaluator.evaluate(table, computed=[WIDTH]).unknown.tolist() == [True, False]
    assert evaluator.evaluate(table).drop.tolist() == [True, True]


def test_a_test_for_none_waits_for_its_score() -> None:
    evaluator = Evaluator(parse("blur is None or width > 5", CATALOG))
    table = window({"width": [9, 1, 1], "blur": pa.array([None, None, 2.0])})
    decisions = evaluator.evaluate(table, computed=[WIDTH], missing=[BLUR])
    assert (decisions.keep.tolist(), decisions.missing[BLUR].tolist()) == (
        [True, False, False],
        [False, True, True],
    )
    assert evaluator.evaluate(table).keep.tolist() == [True, True, False]


def test_below_a_decided_part_nothing_is_lacking() -> None:
    evaluator = Evaluator(parse("duplicate or (width > 10 and similarity > 0.3)", CATALOG))
    table = window({"width": [5, 20]})
    decisions = evaluator.evaluate(
        table, computed=[WIDTH], missing=[SIMILARITY, ScoreCall("duplicate")]
    )
    assert decisions.unknown.all()
    assert decisions.missing[SIMILARITY].tolist() == [False, True]
    assert decisions.missing[ScoreCall("duplicate")].all()


def test_an_unknown_row_that_lacks_nothing_has_no_result() -> None:
    evaluator = Evaluator(parse("width / height > 1", CATALOG))
    decisions = evaluator.evaluate(window({"width": [1], "height": [0]}), missing=[WIDTH, HEIGHT])
    assert (
        decisions.unknown.tolist(),
        decisions.missing[WIDTH].tolist(),
        decisions.missing[HEIGHT].tolist(),
    ) == (
        [True],
        [False],
        [False],
    )


def test_a_table_is_read_once_by_the_arrow_stream_interface_alone() -> None:
    evaluator = Evaluator(parse("width > 1 and caption != 'a'", CATALOG))
    table = window(
        {"caption": ["a", "b", None], "more": [1, 2, 3], "width": np.array([2, np.nan, 2])}
    )
    for _ in range(3):
        decisions = evaluator.evaluate(Columns(table.names, Stream(table.data)), missing=[WIDTH])
        assert decisions.drop.tolist() == [True, False, False]
        assert decisions.missing[WIDTH].tolist() == [False, True, False]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.null()]
)
def test_numbers_of_any_type_are_floats(kind: pa.DataType) -> None:
    evaluator = Evaluator(parse("width * width > 100", CATALOG))
    values = [None, None] if kind == pa.null() else [100, None]
    decisions = evaluator.evaluate(window({"width": pa.array(values, kind)}))
    assert decisions.keep.tolist() == [kind != pa.null(), False]


def test_texts_of_any_type_are_texts_and_few_values_may_be_in_a_dictionary() -> None:
    evaluator = Evaluator(parse("language in ('en', 'de')", CATALOG))
    column = pa.array(["en", "fr", None])
    for each in (column, column.dictionary_encode(), column.cast(pa.large_string())):
        assert evaluator.evaluate(window({"language": each})).keep.tolist() == [True, False, False]


def test_names_that_differ_in_case_are_different_columns() -> None:
    evaluator = Evaluator(parse("json_number('a') > json_number('A')", CATALOG))
    table = window({'json_number(path="A")': [1, 2], 'json_number(path="a")': [2, 1]})
    assert evaluator.evaluate(table).keep.tolist() == [True, False]


def test_no_rows_and_no_columns() -> None:
    evaluator = Evaluator(parse("width > 1", CATALOG))
    decisions = evaluator.evaluate(window({"width": pa.array([], pa.float64())}), missing=[WIDTH])
    assert len(decisions.keep) == len(decisions.term) == len(decisions.missing[WIDTH]) == 0
    assert Evaluator(parse("True", CATALOG)).evaluate(
        window({"key": ["a", "b"]})
    ).keep.tolist() == [True, True]
    with pytest.raises(KeyError, match="width"):
        evaluator.evaluate(window({"height": [1]}))


def test_many_keys_are_found_quickly() -> None:
    keys = ", ".join(f"'{number:09}'" for number in range(20_000))
    evaluator = Evaluator(parse(f"key in ({keys})", CATALOG))
    names = [f"{number:09}" for number in range(19_000, 21_000)]
    assert (
        evaluator.evaluate(window({"key": names})).keep.tolist() == [True] * 1000 + [False] * 1000
    )


def test_an_evaluator_goes_to_other_processes() -> None:
    evaluator = Evaluator(parse("width > 1 and language in ('en', 'de')", CATALOG))
    table = window({"width": [2, 2, 1], "language": ["en", "fr", "de"]})
    assert evaluator.evaluate(table).keep.tolist() == [True, False, False]
    assert pickle.loads(pickle.dumps(evaluator)).evaluate(table).keep.tolist() == [
        True,
        False,
        False,
    ]


# A forked process that imported DuckDB 1.5, and did nothing else with it, hangs when Python ends:
# DuckDB waits for a thread of the parent. Processes of multiprocessing end without that.
FORKING = """
import os, sys
import duckdb
from tests.expressions.catalog import CATALOG
from tests.expressions.tables import window
from wdsflow.expressions.parsing import parse
from wdsflow.expressions.evaluator import Evaluator

evaluator = Evaluator(parse("width > 1 and language in ('en', 'de')", CATALOG))
table = window({"width": [2, 2, 1], "language": ["en", "fr", "de"]})
assert evaluator.evaluate(table).keep.tolist() == [True, False, False]
child = os.fork()
assert evaluator.evaluate(table).keep.tolist() == [True, False, False]
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if duckdb.__version__.startswith("1."):
    os._exit(0)
"""


def test_a_forked_process_uses_the_evaluator_and_ends() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", FORKING], cwd=root, check=False, timeout=120)
    assert done.returncode == 0


def test_two_evaluators_do_not_share_their_constants() -> None:
    evaluators = [Evaluator(parse(f"width > {number}", CATALOG)) for number in range(3)]
    table = window({"width": [0.5, 1.5, 2.5]})
    kept = [[evaluator.evaluate(table).keep.tolist() for evaluator in evaluators] for _ in range(2)]
    assert kept[0] == kept[1] == [[True, True, True], [False, True, True], [False, False, True]]
