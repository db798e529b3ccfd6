"""From a text to an expression."""

from collections.abc import Mapping

from .expression import Expression, Term
from .parser import Parser
from .score_call import ScoreCall, ScoreType, facts_of
from .sql import SqlTooLongError, check_length
from .syntax import ExpressionText, syntax_tree
from .tree import Node, Operation, ScoreValue
from .typing_rules import kind_in_words, need_condition

# Each becomes a column of a query.
MOST_TERMS = 256


def parse(text: str, catalog: Mapping[str, ScoreType]) -> Expression:
    """Return the condition that a text means. Nothing of the text is evaluated.

    Args:
        text: an expression of Python: see the manual for what it may contain.
        catalog: the scores by name, as classes or objects.

    Raises:
        ExpressionError: with the position in the text and what to write instead.
    """
    source = ExpressionText(text)
    node = Parser(source, catalog).node(syntax_tree(source))
    need_condition(source, node, "a predicate is")
    parts = node.items if isinstance(node, Operation) and node.name == "and" else (node,)
    if len(parts) > MOST_TERMS:
        raise source.error(
            parts[MOST_TERMS].span,
            f"more than {MOST_TERMS} terms",
            "a list is shorter: x in (1, 2)",
        )
    return _expression(source, parts, catalog)


def parse_number(text: str, catalog: Mapping[str, ScoreType]) -> Expression:
    """Return the number that a text means, as ``parse`` does.

    It is a score or an arithmetic expression of scores, such as ``width / height``.
    """
    source = ExpressionText(text)
    node = Parser(source, catalog).node(syntax_tree(source))
    if node.kind != "number":
        raise source.error(node.span, f"it is {kind_in_words(node.kind)}, not a number")
    return _expression(source, (node,), catalog)


def parse_score(text: str, catalog: Mapping[str, ScoreType]) -> ScoreCall:
    """Return the score that a text names, with its settings.

    Such as ``near_duplicate(distance=4)``.

    Raises ExpressionError, also if the text is more than the name of a score.
    """
    source = ExpressionText(text)
    node = Parser(source, catalog).node(syntax_tree(source))
    if not isinstance(node, ScoreValue):
        hint = "conditions belong in --where, and all scores are listed by: wdsflow scores"
        raise source.error(
            node.span, f"{source.quoted(node.span)} is not the name of a score", hint
        )
    return node.call


def _expression(
    source: ExpressionText, parts: tuple[Node, ...], catalog: Mapping[str, ScoreType]
) -> Expression:
    terms = []
    for part in parts:
        start, end = part.span
        terms.append(Term(" ".join(source.text[start:end].splitlines()), part, part.span))
        try:
            check_length(part)
        except SqlTooLongError as error:
            raise source.error(
                error.span, "too long for the database", "write % and // of simpler numbers"
            ) from None
    facts = {call.name: facts_of(catalog[call.name]) for term in terms for call in term.scores}
    return Expression(source.text, tuple(dict.fromkeys(terms)), facts)
