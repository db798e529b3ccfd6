"""Expressions that try to run code, read files, loop or exhaust memory.

They are refused with a message, and nothing is left behind.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.expressions.catalog import CATALOG
from tests.expressions.tables import table_of, window
from wdsflow.expressions.database import connection, error_of
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.parsing import parse, parse_score
from wdsflow.text.shell import escape

REFUSED = [
    # Code of Python.
    "__import__('os').system('touch hacked')",
    "exec('import os')",
    "eval('1')",
    "open('hacked', 'w')",
    "print(width)",
    "().__class__.__bases__[0].__subclasses__()",
    "width.__class__ == 3",
    "caption.format(width)",
    "'{0.__class__}'.format(caption) == 'a'",
    "caption % (width,) == 'a'",
    "'%s' % caption == 'a'",
    "(lambda: True)()",
    "lambda: width > 3",
    "[x for x in (1, 2)] == 3",
    "any(x > 3 for x in width)",
    "{x for x in (1,)}",
    "{1: 2}[1] > width",
    "(x := width) > 3",
    "f'{width}' == 'a'",
    "f'{__import__(\"os\")}' == 'a'",
    "b'abc' == caption",
    "width > 3j",
    "width is ...",
    "await width",
    "(yield width)",
    "(yield from width)",
    "*width > 3",
    "width[0] > 3",
    "width[0:2] > 3",
    "near_duplicate(**{'distance': 3})",
    "near_duplicate(*(3,))",
    "near_duplicate(distance=__import__('os'))",
    "near_duplicate(distance=width)",
    "near_duplicate(__class__=3)",
    "zero_shot(labels=[open('x')]) > 0",
    "globals()",
    "getattr(width, 'real') > 1",
    "import os",
    "width > 3; import os",
    "width > 3\nimport os",
    "del width",
    "assert width",
    "width = 3",
    # Code of SQL.
    "read_text('/etc/passwd') == ''",
    "read_csv('/etc/passwd') > 3",
    "getenv('HOME') == 'a'",
    "sleep_ms(1000) > 3",
    "random() > 0.5",
    "width > (SELECT 1)",
    "width > 3 -- comment",
    "width > 3 /* comment */",
    "width::INTEGER > 3",
    "width > $1",
    '"width" > 3',
    "getvariable('constant1') > 3",
    "COPY samples TO 'hacked'",
    # What has no end, or eats memory.
    "9 ** 9 ** 9 ** 9 > width",
    "width ** 999999999 > 3",
    "width > 1 << 999999999",
    "'a' * 999999999 == caption",
    "width > " + "9" * 5000,
    "width > 1e999",
    "width > 1e300 * 1e300",
    "width > 2 ** 70",
    "width > 9223372036854775809",
    "(" * 100_000 + "width > 1" + ")" * 100_000,
    "not " * 100_000 + "has_url",
    "- " * 100_000 + "width > 1",
    "+".join(["width"] * 100_000) + " > 1",
    "width" + ".a" * 100_000 + " > 1",
    "width" + "[0]" * 100_000 + " > 1",
    "width > 1 if " * 1000 + "width > 1 else True",
    "lower(" * 1000 + "caption" + ")" * 1000 + " == 'a'",
    " and ".join(f"width > {number}" for number in range(300)),
    "width in (" + "1," * 600_000 + "1)",
    "width % (1 + " * 40 + "height" + ")" * 40 + " > 1",
    "any(" * 60 + "has_url" + ")" * 60,
    "matches(caption, '((a{999}){999}){999}')",
    "matches(caption, caption)",
    "caption == '" + "a" * 2_000_000 + "'",
    # Characters.
    "width > 1\0",
    "caption == 'a\0b'",
    "caption == '\\0'",
    "caption == 'a\udcffb'",
    "caption == '\\udcff'",
    "caption == 'a\x1b[31m'",
    "caption == '\\x1b[31m'",
    "zero_shot(labels=('a\\0',)) > 0",
    "width > 3 \u202e and",
    "width\u200b > 3",
    "“width” > 3",
    "width > ٣",
    # Halves of expressions.
    "width > 1) or (True",
    "width > 1) and has_url, (True",
    ")(",
    "'",
    "\\",
    "# width > 1",
    "",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder that is the home, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_it_is_refused_at_once_with_its_position_and_leaves_nothing_behind(
    number: int, folder: Path
) -> None:
    modules, variables, begun = set(sys.modules), dict(os.environ), time.perf_counter()
    with pytest.raises(ExpressionError) as refused:
        parse(REFUSED[number], CATALOG)
    assert time.perf_counter() - begun < 10
    lines = str(refused.value).splitlines()
    assert lines[0].startswith("where, ")
    assert all(line == escape(line, limit=len(line)) and len(line) < 500 for line in lines)
    assert list(folder.iterdir()) == []
    assert dict(os.environ) == variables
    # The module for regular expressions, and what it imports.
    assert {name.partition(".")[0] for name in {*sys.modules} - modules} <= {
        "duckdb",
        "_duckdb",
        "adbc_driver_duckdb",
    }


HARMLESS = [
    "caption == 'x'' OR 1=1; DROP TABLE samples; --'".replace("''", "\\'"),
    "caption != \"'); COPY samples TO 'hacked'; --\"",
    "'\"; DETACH memory; --' not in caption",
    "caption not in ('$1', '?', '{0}', '%s', \"getvariable('constant1')\")",
    'not matches(caption, "\'; SELECT 1; --")',
    "caption != '\\n\\r\\t\\\\'",
    "key in ('/etc/passwd', 'read_text(1)') or True",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_like_a_statement_is_a_text(text: str, folder: Path) -> None:
    evaluator = Evaluator(parse(text, CATALOG))
    samples = [
        {"caption": [caption], "key": [caption]}
        for caption in ("a", "x' OR 1=1; DROP TABLE samples; --")
    ]
    decisions = [evaluator.evaluate(table_of(samples, ["caption", "key"], [])) for _ in range(2)]
    assert decisions[0].keep.tolist() == decisions[1].keep.tolist()
    assert text.startswith("caption == ") is not bool(decisions[0].keep[0])
    assert bool(decisions[0].keep[1])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "label", ["a'b", 'a"b', 'x"; DROP TABLE samples; --', "a)b(", "$1", "é\u202e"]
)
def test_a_setting_is_part_of_a_name_and_no_statement(label: str) -> None:
    quoted = label.replace('"', '\\"')
    expression = parse(f'zero_shot(labels=("{quoted}", "b")) > 0.5', CATALOG)
    (call,) = expression.scores
    assert call.settings == (("labels", (label, "b")),)
    assert parse_score(str(call), CATALOG) == call
    decisions = Evaluator(expression).evaluate(window({str(call): [0.25, 0.75]}))
    assert decisions.keep.tolist() == [False, True]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO 'hacked'",
        "ATTACH 'hacked.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET lock_configuration = false",
        "SET enable_external_access = true",
        "SET threads = 8",
        "SELECT * FROM variable_of_python",
        "SELECT list(repeat('a', 1000)) FROM range(1_000_000)",
    ],
)
def test_even_a_statement_reaches_nothing(statement: str, folder: Path) -> None:
    import pyarrow as pa

    variable_of_python = pa.table({"a": [1]})
    assert error_of(statement)
    assert variable_of_python.num_rows == 1
    assert list(folder.iterdir()) == []
    assert connection().execute("SELECT 1").fetchall() == [(1,)]


NESTED = """
import sys, threading
from tests.expressions.catalog import CATALOG
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.parsing import parse

def run():
    for part in ("+width", ".a", "[0]", "(1)", " or width"):
        try:
            parse("width" + part * 100_000, CATALOG)
        except ExpressionError as error:
            print(str(error).splitlines()[0])

threading.stack_size(256 << 10)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_deep_nesting_ends_no_process_not_even_in_a_thread_with_a_small_stack() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", NESTED], cwd=root, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 5


@pytest.mark.parametrize("part", ["({} % width)", "(width // {})", "(1 if {} > 2 else 2)"])
def test_what_would_take_the_database_long_to_plan_is_refused(part: str) -> None:
    text = "width"
    for _ in range(20):
        text = part.format(text)
    with pytest.raises(ExpressionError, match="too long for the database"):
        parse(f"{text} > 1", CATALOG)
