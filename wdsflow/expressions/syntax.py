"""From text to Python's syntax tree: limits, and positions in characters."""

import ast
import re
import unicodedata
import warnings
from functools import cache

from .errors import ExpressionError
from .syntax_errors import explain_syntax_error
from .tree import DEEPEST, Span

# Characters of an expression: a list of keys can be long.
LONGEST = 1_000_000
# Python 3.10 ends with a segmentation fault if some 20,000
# operators are nested, which a long sum is.
_MOST_OPERATORS = 2_000

_STRING = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""", re.DOTALL)
_OPERATOR = re.compile(r"[\w)\]'\"]\s*(?:[-+*/%@&|^(\[]|\.[^\W\d])")


class ExpressionText:
    """The text of an expression, and the positions of Python's syntax nodes in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        # The parser sees "(" before the text. It takes "\r" and "\r\n" for the end of a line, too.
        self._lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", f"({text}")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._characters = cache(self._characters_of_line)

    def span(self, node: ast.expr | ast.keyword) -> Span:
        """Return where a node starts and ends in the text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._position(node.lineno, node.col_offset)
        end = self._position(node.end_lineno, node.end_col_offset)
        return start, end

    def _position(self, line: int, offset: int) -> int:
        """Return the index in the text; ``offset`` counts the bytes of UTF-8 in the line."""
        # A tuple without parentheses has ours.
        if line > len(self._lines) or (line, offset) == (1, 0):
            return 0 if line == 1 else len(self.text)
        characters = self._characters(line)
        column = offset if characters is None else characters[offset]
        return self._starts[line - 1] + column - 1

    def _characters_of_line(self, line: int) -> list[int] | None:
        """Return the index of the character for each byte of a line, None if they are the same."""
        text = self._lines[line - 1]
        if text.isascii():
            return None
        characters: list[int] = []
        for index, char in enumerate(text):
            characters += [index] * len(char.encode())
        return [*characters, len(text)]

    def error(self, span: Span, detail: str, hint: str = "") -> ExpressionError:
        """Return an error about a part of the text."""
        return ExpressionError(self.text, *span, detail, hint)

    def quoted(self, span: Span) -> str:
        """Return a part as it was written, on one line, cut to a length for messages."""
        text = " ".join(self.text[span[0] : span[1]].split())
        return text if len(text) <= 40 else f"{text[:37]}..."


def syntax_tree(source: ExpressionText) -> ast.expr:
    """Return the syntax tree of an expression. Nothing is evaluated. Raises ExpressionError."""
    text = source.text
    if len(text) > LONGEST:
        raise source.error(
            (LONGEST, LONGEST), f"the predicate is longer than {LONGEST:,} characters"
        )
    if not text.strip():
        raise source.error(
            (0, 0), "the predicate is empty", "write for example: width >= 200; or: True"
        )
    _refuse_control_characters(source)
    if len(_OPERATOR.findall(_STRING.sub("''", text))) > _MOST_OPERATORS:
        raise _too_deep(source)
    try:
        with warnings.catch_warnings():
            # Python warns about backslashes in texts that are
            # not raw: regular expressions are full of them.
            warnings.simplefilter("ignore")
            # In parentheses, an expression may have several lines.
            tree = ast.parse(f"({text}\n)", mode="eval").body
    except (RecursionError, MemoryError):
        raise _too_deep(source) from None
    except (SyntaxError, ValueError) as error:
        if "too many nested parentheses" in str(error):
            raise _too_deep(source) from None
        raise explain_syntax_error(text) from None
    # Whole expressions start behind our parenthesis; "a) or (b" does not, and neither do tuples,
    # which are refused later.
    if (tree.lineno, tree.col_offset) == (1, 0) and not isinstance(
        tree, (ast.Tuple, ast.GeneratorExp)
    ):
        raise explain_syntax_error(text)
    _refuse_deep_trees(source, tree)
    return tree


def _too_deep(source: ExpressionText) -> ExpressionError:
    return source.error((0, 1), f"nested more than {DEEPEST} levels deep")


def _refuse_control_characters(source: ExpressionText) -> None:
    """Refuse control characters, at which Python's parser may fail.

    No text of a sample has them by intention.
    """
    if source.text.isprintable():
        return
    for index, char in enumerate(source.text):
        if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\t\n\r":
            raise source.error((index, index + 1), "a control character")


def _refuse_deep_trees(source: ExpressionText, tree: ast.expr) -> None:
    """Refuse a tree that is nested too deeply: later steps are recursive."""
    level = [tree]
    for _ in range(DEEPEST):
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
        if not level:
            return
    raise source.error(source.span(level[0]), f"nested more than {DEEPEST} levels deep")
