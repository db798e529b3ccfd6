"""The tokens of a predicate, taken one by one."""

from .predicate_errors import WhereError
from .predicate_tokens import Token, tokenize
from .tree import DEEPEST

_UNITS = frozenset({"b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "k", "m", "g"})


class ValueStream:
    """Tokens, the current position, and the depth of nesting."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.nested = 0

    @property
    def ends(self) -> bool:
        """Whether no token is left."""
        return self.here.kind == "end"

    @property
    def before(self) -> Token:
        """The token that was taken last."""
        return self.tokens[self.at - 1]

    @property
    def here(self) -> Token:
        """The token that is next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Take a token; the end stays where it is."""
        token = self.here
        self.at += token.kind != "end"
        return token

    def take(self, kind: str, *values: str) -> Token | None:
        """Take the next token if it has a kind, and one of some values if they are given."""
        token = self.here
        return self.next() if token.kind == kind and (not values or token.value in values) else None

    def expect(self, kind: str, value: str, what: str) -> Token:
        """Take a required token. Raises WhereError."""
        token = self.take(kind, value)
        if token is None:
            raise self.wrong(what)
        return token

    def wrong(self, what: str, hint: str = "") -> WhereError:
        """Return the error about the token that is here instead."""
        token = self.here
        found = "the predicate ends" if token.kind == "end" else f"found `{self.text[token.start : token.end][:40]}`"
        return WhereError(self.text, token.start, token.end, f"{found}, expected {what}", hint)

    def left_over(self) -> WhereError:
        """Return the error about text after a complete predicate."""
        token, before = self.here, self.before
        word = str(token.value).lower()
        if token.kind == "sign" and word == ")":
            return WhereError(self.text, token.start, token.end, "a closing parenthesis too many")
        hint = ""
        if token.kind == "sign" and word == ",":
            hint = "write numbers without separators (1000 or 1_000); join conditions with `and`"
        elif token.kind == "name" and before.kind == "number":
            hint = "write a size without a space: 1.5MB, 200KiB" if word in _UNITS else ""
        elif token.kind == "name" and word in {"like", "ilike", "rlike", "regexp", "glob", "similar"}:
            hint = "write contains(caption, 'cat'), startswith(...), or matches(caption, 'regular expression')"
        elif token.kind == "text" and before.kind == "text":
            hint = "write \\' for a quote inside of a text"
        elif token.kind == "name" and word in {"and", "or", "not", "in", "between", "is"}:
            hint = f"write {word} in lower case"
        return self.wrong("`and`, `or` or the end", hint)

    def deeper(self) -> None:
        """Count a level of nesting. Raises WhereError beyond the last one."""
        self.nested += 1
        if self.nested > DEEPEST:
            token = self.here
            raise WhereError(self.text, token.start, token.end, f"nested more than {DEEPEST} levels deep")
