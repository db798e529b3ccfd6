"""A parsed expression: its terms, the scores that it needs, and where they are in the text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .score_call import Kind, ScoreCall, ScoreFacts
from .tree import Node, Operation, ScoreValue, Span, calls_of, nodes_of, printed, printed_term


@dataclass(frozen=True)
class Term:
    """A condition of the top-level ``and``.

    ``text`` is as the user wrote it; ``str()`` is the canonical form.

    Terms with the same meaning are equal, wherever they are in the text: ``span``.
    """

    text: str = field(compare=False)
    node: Node
    span: Span = field(default=(0, 0), compare=False)

    def __str__(self) -> str:
        return self._canonical

    @cached_property
    def _canonical(self) -> str:
        return printed_term(self.node)

    @cached_property
    def scores(self) -> tuple[ScoreCall, ...]:
        """The scores of the term, each once, in the order of the text."""
        return calls_of(self.node)


@dataclass(frozen=True)
class Expression:
    """A condition, as the terms of its top-level ``and``; or a number, as one term.

    ``str()`` is the canonical form. Parsing it gives an equal expression.

    Attributes:
        text: the text of the user.
        terms: each once, in the order of the text.
        facts: cost and range of each score by its name.
    """

    text: str = field(compare=False)
    terms: tuple[Term, ...]
    facts: Mapping[str, ScoreFacts] = field(compare=False, repr=False)

    def __str__(self) -> str:
        if len(self.terms) == 1:
            return printed(self.terms[0].node)
        return " and ".join(map(str, self.terms))

    @cached_property
    def scores(self) -> tuple[ScoreCall, ...]:
        """The scores of all terms, each once, in the order of the text."""
        return tuple(dict.fromkeys(call for term in self.terms for call in term.scores))

    @cached_property
    def kinds(self) -> dict[ScoreCall, Kind]:
        """The type of each score: number, boolean or text."""
        values = (
            node
            for term in self.terms
            for node in nodes_of(term.node)
            if isinstance(node, ScoreValue)
        )
        return {value.call: value.kind for value in values}

    @cached_property
    def may_be_missing(self) -> frozenset[ScoreCall]:
        """The scores that the expression tests for None.

        It has an answer for samples without these values.

        An expression without such tests is monotone: values that are not computed yet can be
        missing, and a result that does not need them stays the same when they are.
        """
        tests = (
            node
            for term in self.terms
            for node in nodes_of(term.node)
            if isinstance(node, Operation) and node.name == "is None"
        )
        return frozenset(call for test in tests for call in calls_of(test))
