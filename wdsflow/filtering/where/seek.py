"""Which scores may still change the result of a tree."""

from collections.abc import Callable
from typing import TypeAlias

from wdsflow.filtering.where.language.tree import And, Compare, NameRef, Node, Or, children
from wdsflow.filtering.where.language.values import PENDING, Call

from .evaluate_predicate import Lookup, links, runner

Seek: TypeAlias = Callable[[Lookup], list[Call]]


def seeker(node: Node) -> Seek:
    """Return a function from values to the missing scores that may still decide; for a tree whose result is pending.

    Below `and` and `or`, decided parts need no more scores. All other nodes need everything below them.
    """
    if isinstance(node, NameRef):
        call = node.call
        return lambda values: [] if call in values else [call]
    if isinstance(node, Compare):
        return _chain(node)
    below = [seeker(child) for child in children(node)]
    if isinstance(node, (And, Or)):
        runs = [runner(child) for child in children(node)]
        pairs = list(zip(runs, below, strict=True))
        return lambda values: [call for run, seek in pairs if run(values) is PENDING for call in seek(values)]
    if len(below) == 1:
        return below[0]
    return lambda values: [call for seek in below for call in seek(values)]


def _chain(node: Compare) -> Seek:
    runs = [runner(operand) for operand in node.operands]
    seeks = [seeker(operand) for operand in node.operands]

    def seek(values: Lookup) -> list[Call]:
        made = links(node, [run(values) for run in runs])
        open_ends = {end for at, link in enumerate(made) if link is PENDING for end in (at, at + 1)}
        return [call for end in sorted(open_ends) for call in seeks[end](values)]

    return seek
