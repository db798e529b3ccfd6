"""Constants and lists of them."""

from .build import Piece
from .stream import ValueStream
from .tree import Literal
from .values import Scalar, Setting


class Constants(ValueStream):
    """A stream of tokens that reads constants."""

    def constants(self, what: str) -> list[Piece]:
        """Read constants up to the closing parenthesis."""
        options: list[Piece] = []
        while not (options and self.take("sign", ")")):
            if options:
                self.expect("sign", ",", "a comma or a closing parenthesis")
                if self.take("sign", ")"):
                    break
            options.append(self.constant(what))
        return options

    def constant(self, what: str) -> Piece:
        """Read a number, a text, true or false."""
        minus = self.take("sign", "-")
        token = self.here
        if token.kind in {"number", "text"} and not (minus and token.kind == "text"):
            self.next()
            value = -token.value if minus and not isinstance(token.value, str) else token.value
            return Piece(Literal(value), minus.start if minus else token.start, token.end)
        if token.kind == "word" and token.value in {"true", "false"} and not minus:
            self.next()
            return Piece(Literal(token.value == "true"), token.start, token.end)
        raise self.wrong(f"{what}: a number, a 'text', true or false")

    def setting(self) -> Setting:
        """Read the value of a setting: a constant or a list of constants."""
        values: list[Scalar] = []
        if self.take("sign", "("):
            pieces = self.constants("a list of constants")
            values = [piece.node.value for piece in pieces if isinstance(piece.node, Literal)]
            return tuple(values)
        node = self.constant("a value of the setting").node
        assert isinstance(node, Literal)
        return node.value
