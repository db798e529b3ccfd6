"""Typed pieces of a predicate: the rules for their combination, and hints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsflow.text.words import how_many

from .tokens import WhereError
from .tree import DEEPEST, Compare, Literal, Membership, Node, Op
from .values import FUNCTIONS, Kind, PatternError, Scalar, compiled

_WORDS: dict[Kind, str] = {"number": "a number", "boolean": "a condition", "text": "a text"}


class Piece(NamedTuple):
    """A part of a predicate: its tree, its place in the text, its depth, and the conjuncts it consists of.

    ``over`` is "any" or "all" for ``any(x)`` of values, which must be compared.
    """

    node: Node
    start: int
    end: int
    depth: int = 1
    parts: tuple["Piece", ...] = ()
    over: str = ""


@dataclass(frozen=True)
class Builder:
    """Combines pieces, or raises WhereError about their types."""

    text: str

    def error(self, piece: Piece, detail: str, hint: str = "") -> WhereError:
        """Return an error that points to a piece."""
        return WhereError(self.text, piece.start, piece.end, detail, hint)

    def source(self, piece: Piece) -> str:
        """Return a piece as it was written, cut to a length for messages."""
        text = " ".join(self.text[piece.start : piece.end].split())
        return text if len(text) <= 40 else f"{text[:37]}..."

    def join(self, node: Node, pieces: Sequence[Piece], start: int, end: int) -> Piece:
        """Return the piece of a parent node. Raises WhereError if it is nested too deeply."""
        depth = 1 + max((piece.depth for piece in pieces), default=0)
        if depth > DEEPEST:
            raise WhereError(self.text, start, start + 1, f"nested more than {DEEPEST} levels deep")
        return Piece(node, start, end, depth)

    def value(self, piece: Piece) -> Piece:
        """Return the piece unless it is an any(x) or all(x) without its comparison."""
        if not piece.over:
            return piece
        inner = self.source(piece).partition("(")[2].removesuffix(")")
        test = "== 'text'" if piece.node.kind == "text" else "> 0"
        example = f"{piece.over}({inner} {test})"
        raise self.error(piece, f"{piece.over}(...) needs a condition or a comparison", f"write it as {example}")

    def condition(self, piece: Piece, place: str) -> Piece:
        """Return the piece if it is a condition."""
        kind, source = self.value(piece).node.kind, self.source(piece)
        if kind == "boolean":
            return piece
        hint = f"compare it, as in {source} >= 1" if kind == "number" else f"compare it, as in {source} == 'text'"
        raise self.error(piece, f"{place} a condition, but {source} is {_WORDS[kind]}", hint)

    def number(self, piece: Piece, sign: str) -> Piece:
        """Return the piece if it is a number."""
        kind = self.value(piece).node.kind
        if kind == "number":
            return piece
        hint = "length(...) and words(...) turn a text into a number" if kind == "text" else ""
        raise self.error(piece, f"{sign} takes numbers, but {self.source(piece)} is {_WORDS[kind]}", hint)

    def negate(self, body: Piece, start: int) -> Piece:
        """Return the negative of a number; a constant is negated directly."""
        node = self.number(body, "-").node
        if isinstance(node, Literal) and not isinstance(node.value, (bool, str)):
            return body._replace(node=Literal(-node.value), start=start)
        return self.join(Op("neg", (node,), "number"), (body,), start, body.end)

    def arithmetic(self, sign: str, left: Piece, right: Piece) -> Piece:
        """Return the sum, product and so on of two numbers."""
        node = Op(sign, (self.number(left, sign).node, self.number(right, sign).node), "number")
        if sign in {"/", "//", "%"} and isinstance(right.node, Literal) and right.node.value == 0:
            raise self.error(right, "a division by zero")
        return self.join(node, (left, right), left.start, right.end)

    def negation(self, body: Piece, start: int) -> Piece:
        """Return the negation of a condition."""
        return self.join(Op("not", (self.condition(body, "`not` takes").node,)), (body,), start, body.end)

    def both(self, word: str, items: list[Piece]) -> Piece:
        """Return the conjunction or disjunction of conditions, flat."""
        if len(items) == 1:
            return items[0]
        flat: list[Piece] = []
        for item in items:
            self.condition(item, f"`{word}` takes")
            flat.extend(item.parts if isinstance(item.node, Op) and item.node.name == word else (item,))
        piece = self.join(Op(word, tuple(item.node for item in flat)), flat, items[0].start, items[-1].end)
        return piece._replace(parts=tuple(flat))

    def compare(self, signs: list[str], operands: list[Piece]) -> Piece:
        """Return a chain of comparisons."""
        for sign, left, right in zip(signs, operands, operands[1:], strict=False):
            self.alike(left, right)
            if left.node.kind == "boolean" and sign not in {"==", "!="}:
                raise self.error(left, f"{self.source(left)} is a condition; it has no order", self._yes_or_no(left))
        bodies = tuple(piece.node for piece in operands)
        return self._over(Compare(tuple(signs), bodies), operands, operands[0].start, operands[-1].end)

    def between(self, body: Piece, low: Piece, high: Piece) -> Piece:
        """Return whether a value is between two others, inclusive."""
        self.alike(body, low)
        self.alike(body, high)
        first, last = (end.node.value if isinstance(end.node, Literal) else None for end in (low, high))
        if first is not None and last is not None and first > last:  # type: ignore[operator]
            raise self.error(high, "the upper end is below the lower one", "write the smaller value first")
        return self.compare(["<=", "<="], [low, body, high])._replace(start=body.start, end=high.end)

    def member(self, body: Piece, options: list[Piece], end: int) -> Piece:
        """Return whether a value is one of some constants."""
        for option in options:
            self.alike(body, option)
        values: list[Scalar] = [option.node.value for option in options if isinstance(option.node, Literal)]
        return self._over(Membership((body.node,), tuple(dict.fromkeys(values))), [body], body.start, end)

    def is_null(self, body: Piece, end: int) -> Piece:
        """Return whether a value could not be computed."""
        return self._over(Op("is null", (body.node,)), [body], body.start, end)

    def apply(self, name: str, arguments: list[Piece], start: int, end: int) -> Piece:
        """Return a function of values."""
        function = FUNCTIONS[name]
        usage = f"write {name}({', '.join(('caption', repr('text'))[: len(function.takes)])})"
        if len(arguments) != len(function.takes):
            many = how_many(len(function.takes), "value")
            raise WhereError(self.text, start, end, f"{name} takes {many}, not {len(arguments)}", usage)
        for kind, argument in zip(function.takes, arguments, strict=True):
            if self.value(argument).node.kind != kind:
                what = _WORDS[argument.node.kind]
                detail = f"{name} takes {_WORDS[kind]} here, but {self.source(argument)} is {what}"
                raise self.error(argument, detail, usage if kind == "text" else "")
        if name == "matches":
            self._pattern(arguments[1])
        return self.join(Op(name, tuple(item.node for item in arguments), function.kind), arguments, start, end)

    def over(self, how: str, body: Piece, start: int, end: int) -> Piece:
        """Return any, all, mean, min or max over the images or texts of a sample."""
        self.value(body)
        if how in {"mean", "min", "max"}:
            return self.join(Op(how, (self.number(body, f"{how}()").node,), "number"), (body,), start, end)
        if body.node.kind == "boolean":
            return self.join(Op(how, (body.node,)), (body,), start, end)
        return body._replace(start=start, end=end, parts=(), over=how)

    def alike(self, left: Piece, right: Piece) -> None:
        """Raise WhereError unless two pieces have the same type."""
        one, other = left.node.kind, right.node.kind
        if one == other:
            return
        place = Piece(left.node, left.start, max(left.end, right.end))
        detail = f"{self.source(left)} is {_WORDS[one]}, but {self.source(right)} is {_WORDS[other]}"
        raise self.error(place, detail, self._instead(left, right))

    def _instead(self, left: Piece, right: Piece) -> str:
        for piece, other in ((left, right), (right, left)):
            if piece.node.kind == "boolean":
                return self._yes_or_no(piece)
            if isinstance(piece.node, Literal) and isinstance(piece.node.value, str):
                plain = piece.node.value.strip()
                if plain.replace(".", "", 1).isdigit():
                    return f"write {plain} without quotes"
                return f"compare {self.source(other)} with a number"
        text, number = (left, right) if left.node.kind == "text" else (right, left)
        if isinstance(number.node, Literal):
            return f"write '{self.source(number)}' with quotes, or length({self.source(text)}) for its characters"
        return f"write length({self.source(text)}) for its characters"

    def _yes_or_no(self, piece: Piece) -> str:
        if isinstance(piece.node, Literal):
            return "leave the comparison out: write `duplicate` or `not duplicate`"
        source = self.source(piece)
        return f"write `{source}` or `not {source}` without a comparison"

    def _pattern(self, piece: Piece) -> None:
        node = piece.node
        if not isinstance(node, Literal) or not isinstance(node.value, str):
            raise self.error(
                piece, "the regular expression of matches must be a constant", "write matches(caption, '...')"
            )
        try:
            compiled(node.value)
        except PatternError as error:
            hint = "the syntax is that of RE2, without look-around and back-references"
            raise self.error(piece, f"not a regular expression: {error}", hint) from None

    def _over(self, node: Node, operands: list[Piece], start: int, end: int) -> Piece:
        piece = self.join(node, operands, start, end)
        over = [operand for operand in operands if operand.over]
        if not over:
            return piece
        if len(over) > 1:
            raise self.error(over[1], "any(...) and all(...) twice in one comparison", "write any(a > b)")
        return self.join(Op(over[0].over, (node,)), (piece,), start, end)
