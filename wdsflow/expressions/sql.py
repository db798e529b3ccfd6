"""From a tree to SQL that means the same in DuckDB 1.2 and 2.0.

A value that is missing is NULL, and NULL is the third value of logic: FALSE AND NULL is FALSE, TRUE
AND NULL is NULL. Three rules keep it so:

* Numbers are DOUBLE, whose arithmetic raises no error. A division by zero is NULL, and so is an
  operation on infinities whose result is not a number. DuckDB takes NaN for the largest number, so
  no NaN may be left.
* Columns hold finite numbers or NULL.
* Over the images or captions of a sample, a NULL among them is not left out, as DuckDB's list
  functions do.
"""

from collections.abc import Callable, Collection
from itertools import count

from .constants import Constants, Literals, Parameters
from .expression import Expression
from .functions import FUNCTIONS
from .score_call import Constant, ScoreCall
from .tree import (
    ARITHMETIC,
    OVER_ITEMS,
    Compare,
    Literal,
    Membership,
    Node,
    Operation,
    ScoreValue,
    Span,
    calls_of,
)

SQL_TYPES = {"number": "DOUBLE", "boolean": "BOOLEAN", "text": "VARCHAR"}
# Characters of a term. A chain or a remainder names its operands several times, and they may be
# long themselves. DuckDB takes some two seconds to plan so many, for each window of samples.
_LONGEST = 250_000
_SIGNS = {"==": "=", "!=": "<>"}


class SqlTooLongError(ValueError):
    """A part of an expression, at ``span``, that takes too many characters of SQL."""

    def __init__(self, span: Span) -> None:
        super().__init__(f"the expression needs more than {_LONGEST:,} characters of SQL")
        self.span = span


def quoted_name(name: str) -> str:
    """Return the name of a column in SQL.

    >>> print(quoted_name('has(field="json")'))
    "has(field=""json"")"
    """
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def clean_column_sql(column: str, kind: str, is_list: bool) -> str:
    """Return the SQL of a column as expressions need it.

    Numbers are finite or NULL, and no list is empty.
    """
    if not is_list:
        value = f"{column}::{SQL_TYPES[kind]}"
        return f"CASE WHEN isfinite({value}) THEN {value} END" if kind == "number" else value
    values = f"{column}::{SQL_TYPES[kind]}[]"
    if kind == "number":
        values = f"[CASE WHEN isfinite(item) THEN item END FOR item IN {values}]"
    return f"CASE WHEN len({column}) > 0 THEN {values} ELSE [NULL::{SQL_TYPES[kind]}] END"


def column_by_name(call: ScoreCall) -> str:
    """Return the SQL of the column that is called like its score."""
    return quoted_name(str(call))


def sql(expression: Expression, lists: Collection[ScoreCall] = ()) -> tuple[str, list[Constant]]:
    """Return the condition of an expression as SQL, and its parameters.

    Columns are called like the scores of the expression.

    ``lists``: the scores whose column is a list, with a value for each image or caption of a
    sample; see ``printed_sql``.
    """
    parameters = Parameters()
    text = all_terms(SqlWriter(parameters, lists=lists), expression)
    return text, parameters.values


def printed_sql(expression: Expression, lists: Collection[ScoreCall] = ()) -> str:
    """Return the condition of an expression over a ledger, with its constants spelled out.

    It runs in anybody's DuckDB. A row for which it is neither true nor false has missing values. A
    column that is a list must have at least one item in each row: NULL, if nothing is known.
    """
    return all_terms(SqlWriter(Literals(), lists=lists), expression)


def all_terms(writer: "SqlWriter", expression: Expression) -> str:
    """Return the condition of all terms of an expression."""
    terms = [writer.term(term.node) for term in expression.terms]
    return terms[0] if len(terms) == 1 else " AND ".join(f"({term})" for term in terms)


def check_length(node: Node) -> None:
    """Raise SqlTooLongError if the SQL of a term is too long.

    With or without lists, the SQL has the same order of length.
    """
    # With parameters: a long list of constants costs nothing.
    SqlWriter(Parameters(), longest=_LONGEST).term(node)


class SqlWriter:
    """Writes the SQL of nodes.

    Args:
        constants: how constants are written.
        columns: returns the SQL of a score's column.
        lists: the scores whose column is a list.
        computed: the scores that are computed so far; None for all. The others are NULL, and so is
            a test for None of a value that needs one of them.
        longest: characters of a part above which SqlTooLongError is raised; None for no limit.
    """

    def __init__(
        self,
        constants: Constants,
        columns: Callable[[ScoreCall], str] = column_by_name,
        lists: Collection[ScoreCall] = (),
        computed: Collection[ScoreCall] | None = None,
        longest: int | None = None,
    ) -> None:
        self._constants = constants
        self._longest = longest
        self._columns = columns
        self._lists = lists
        self._computed = computed
        # The SQL of an item of each list, where a condition is tested for each item.
        self._items: dict[ScoreCall, str] = {}
        self._numbers = count(1)

    def term(self, node: Node) -> str:
        """Return the SQL of a whole condition.

        Of several images or captions, it must hold for each.

        A number becomes the smallest of several.
        """
        return self._fold_sql("all" if node.kind == "boolean" else "min", node)

    def needs_value(self, node: Node, call: ScoreCall) -> str | None:
        """Return the SQL for whether a score's missing value may still decide a condition.

        The condition is unknown then.

        None if the condition does not use the score. Below ``and`` and ``or``, decided parts need
        no more values.
        """
        if call not in calls_of(node):
            return None
        is_unknown = f"({self.term(node)}) IS NULL"
        # Over several items, the parts of a condition are
        # combined item by item: none is decided on its own.
        is_logic = isinstance(node, Operation) and node.name in {"and", "or", "not"}
        if is_logic and not self._lists_of(node):
            conditions = [self.needs_value(item, call) for item in node.items]
            inner = [condition for condition in conditions if condition is not None]
            return f"{is_unknown} AND ({' OR '.join(inner)})"
        return f"{is_unknown} AND {self._is_missing(call)}"

    def _is_missing(self, call: ScoreCall) -> str:
        """Return the SQL for whether a value, or one of several, is missing."""
        if self._computed is not None and call not in self._computed:
            return "true"
        column = self._columns(call)
        return (
            f"len({column}) > list_count({column})" if call in self._lists else f"{column} IS NULL"
        )

    def _write(self, node: Node) -> str:
        """Return the SQL of a node."""
        text = self._term_sql(node)
        if self._longest is not None and len(text) > self._longest:
            raise SqlTooLongError(node.span)
        return text

    def _term_sql(self, node: Node) -> str:
        match node:
            case Literal(value):
                return self._constants.constant_sql(value)
            case ScoreValue(call, kind):
                return self._value(call, kind)
            case Compare(signs, items):
                operands = [self._operand(item) for item in items]
                links = zip(operands, signs, operands[1:], strict=False)
                return " AND ".join(
                    f"{left} {_SIGNS.get(sign, sign)} {right}" for left, sign, right in links
                )
            case Membership((item,), options):
                return self._constants.membership_sql(options, self._operand(item))
            case Operation("and" | "or" as word, items):
                return f" {word.upper()} ".join(map(self._operand, items))
            case Operation("not", (item,)):
                return f"NOT {self._operand(item)}"
            case Operation("neg", (item,)):
                return f"-{self._operand(item)}"
            case Operation("is None", (item,)):
                return self._is_none(item)
            case Operation("if", (condition, value, other)):
                test = self._operand(condition)
                return f"CASE WHEN {test} THEN {self._write(value)} WHEN NOT {test} THEN {self._write(other)} END"
            case Operation(how, (item,)) if how in OVER_ITEMS:
                return self._fold_sql(how, item)
            case Operation(sign, (left, right)) if sign in ARITHMETIC:
                return self._arithmetic(sign, left, right)
            case Operation(name, items):
                return FUNCTIONS[name].sql.format(*map(self._write, items))
        raise AssertionError(node)

    def _operand(self, node: Node) -> str:
        """Return the SQL of a node as an operand: in parentheses unless it is one word."""
        text = self._write(node)
        is_function = isinstance(node, Operation) and node.name in FUNCTIONS
        if (
            isinstance(node, ScoreValue)
            or is_function
            or (isinstance(node, Literal) and not text.startswith("-"))
        ):
            return text
        return f"({text})"

    def _value(self, call: ScoreCall, kind: str) -> str:
        if self._computed is not None and call not in self._computed:
            return f"NULL::{SQL_TYPES[kind]}"
        return self._items.get(call) or self._columns(call)

    def _is_none(self, item: Node) -> str:
        calls = calls_of(item)
        if self._computed is not None and not all(call in self._computed for call in calls):
            return "NULL::BOOLEAN"
        return f"{self._operand(item)} IS NULL"

    def _arithmetic(self, sign: str, left: Node, right: Node) -> str:
        one, other = self._operand(left), self._operand(right)
        if sign in {"/", "//", "%"} and not isinstance(right, Literal):
            # Written out unless it is short: DuckDB takes nullif(x, 0) for a CASE that has x twice.
            short = isinstance(right, ScoreValue)
            other = f"nullif({other}, 0)" if short else f"(CASE WHEN {other} <> 0 THEN {other} END)"
        if sign == "%":
            text = _remainder(one, other, right)
        elif sign == "//":
            text = _floor_division(one, other, right)
        else:
            text = f"{one} {sign} {other}"
        if _may_be_nan(sign, left, right):
            return f"CASE WHEN NOT isnan({text}) THEN {text} END"
        return text

    def _fold_sql(self, how: str, node: Node) -> str:
        """Return the SQL of any, all, min, max or mean over the items of the lists in a node."""
        lists = self._lists_of(node)
        if not lists:
            return self._write(node)
        outer = self._items
        variable = f"item{next(self._numbers)}"
        columns = [self._columns(call) for call in lists]
        if len(lists) == 1:
            source = columns[0]
            self._items = {lists[0]: variable}
        else:
            # Entry by entry. A single value stands next to each of several; where one list is
            # longer, the items of the other are unknown.
            longest = f"greatest({', '.join(f'len({column})' for column in columns)}, 1)"
            source = f"range(1, {longest} + 1)"
            self._items = {
                call: f"{column}[CASE len({column}) WHEN 1 THEN 1 WHEN {longest} THEN {variable} END]"
                for call, column in zip(lists, columns, strict=True)
            }
        text = _fold(how, self._write(node), variable, source)
        self._items = outer
        if self._computed is not None and any(
            call not in self._computed for call in calls_of(node)
        ):
            # How many items a score has that is not computed yet is not
            # known, and so it is not known which belong together. Only
            # a sample of which all has one item can be decided by now.
            is_single = " AND ".join(f"len({column}) = 1" for column in columns)
            return f"CASE WHEN {is_single} THEN {text} END"
        return text

    def _lists_of(self, node: Node) -> list[ScoreCall]:
        """Return the scores of a node whose column is a list.

        Those below another fold over items are left out.
        """
        calls: dict[ScoreCall, None] = {}

        def collect(part: Node) -> None:
            if isinstance(part, ScoreValue):
                calls[part.call] = None
            if not (isinstance(part, Operation) and part.name in OVER_ITEMS):
                for item in part.items:
                    collect(item)

        collect(node)
        return [
            call
            for call in calls
            if call in self._lists and (self._computed is None or call in self._computed)
        ]


def _fold(how: str, value: str, variable: str, source: str) -> str:
    """Return the SQL that combines ``value`` over a list.

    ``source`` is the list, ``variable`` the name of an item in ``value``.
    """
    if how in {"all", "any"}:
        # 1 is false, 2 unknown and 3 true, so that the smallest or largest decides.
        number = "list_min" if how == "all" else "list_max"
        return f"[false, NULL, true][{number}([coalesce(1 + 2 * ({value})::INTEGER, 2) FOR {variable} IN {source}])]"
    values = source if value == variable else f"[{value} FOR {variable} IN {source}]"
    function = {"min": "list_min", "max": "list_max", "mean": "list_avg"}[how]
    return f"CASE WHEN list_count({values}) = len({values}) THEN {function}({values}) END"


def _remainder(one: str, other: str, divisor: Node) -> str:
    """Return the SQL of the remainder with the sign of the divisor, as in Python.

    DuckDB's has the sign of the dividend.
    """
    remainder = f"{one} % {other}"
    return f"CASE WHEN {_has_wrong_sign(one, other, divisor)} THEN {remainder} + {other} ELSE {remainder} END"


def _floor_division(one: str, other: str, divisor: Node) -> str:
    """Return the SQL of the quotient, rounded down, as in Python.

    It is exact where ``floor(a / b)`` is not.
    """
    quotient = f"round(({one} - {one} % {other}) / {other})"
    return f"{quotient} - CASE WHEN {_has_wrong_sign(one, other, divisor)} THEN 1 ELSE 0 END"


def _has_wrong_sign(one: str, other: str, divisor: Node) -> str:
    """Return the SQL for whether the remainder of DuckDB has another sign than the divisor."""
    if isinstance(divisor, Literal):
        assert not isinstance(divisor.value, str)
        return f"{one} % {other} {'<' if divisor.value > 0 else '>'} 0"
    return f"{one} % {other} <> 0 AND ({one} % {other} < 0) <> ({other} < 0)"


def _may_be_nan(sign: str, left: Node, right: Node) -> bool:
    """Return whether an operation on numbers that are not NaN may be NaN.

    It may be only if some numbers are infinite.
    """
    one, other = _may_be_infinite(left), _may_be_infinite(right)
    match sign:
        case "+" | "-" | "/":
            return one and other
        case "*":
            # Infinity times zero.
            is_factor = any(isinstance(node, Literal) and node.value != 0 for node in (left, right))
            return (one or other) and not is_factor
        case _:
            return one or other


def _may_be_infinite(node: Node) -> bool:
    """Return whether a number may be too large for a float. Columns and constants are finite."""
    if isinstance(node, Operation):
        if node.name in {"neg", "abs", "round", "min", "max", "if"}:
            return any(map(_may_be_infinite, node.items))
        return node.name in ARITHMETIC or node.name == "mean"
    return False
