"""The grammar of a predicate, from tokens to a tree, and the names in it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast, get_args

from .build import Builder, Piece
from .tokens import Token, ValueStream, WhereError, nearest
from .tree import Literal, NameRef
from .values import FUNCTIONS, OVER_ENTRIES, Call, Kind, Scalar, ScoreType, Setting, spelled


def _unknown(text: str, name: str, start: int, end: int, scores: Iterable[str]) -> WhereError:
    """Return the error about a name that is not a score."""
    close = nearest(name, scores) or nearest(name, [*FUNCTIONS, *OVER_ENTRIES])
    if close in FUNCTIONS or close in OVER_ENTRIES:
        hint = f"{close} is a function: write {close}(...)"
    elif name.lower() in {"like", "ilike", "rlike", "regexp", "glob"}:
        hint = "write contains(caption, 'cat'), startswith(...), or matches(caption, 'regular expression')"
    else:
        hint = f"did you mean {close}?" if close else "all scores: wdsflow scores"
    return WhereError(text, start, end, f"no score is called {name[:60]!r}", hint)


Settings: TypeAlias = dict[str, tuple[Setting, int, int]]  # value, and the place of name and value in the text


def _check_settings(text: str, name: str, score: object, settings: Settings, start: int, end: int) -> None:
    """Raise WhereError if a score does not take these settings."""
    if not dataclasses.is_dataclass(score):
        return
    fields = {field.name: field for field in dataclasses.fields(score) if field.init}
    for key, (_, begin, stop) in settings.items():
        if key not in fields:
            close = nearest(key, fields)
            known = f"did you mean {close}?" if close else f"it has {', '.join(sorted(fields)) or 'no settings'}"
            raise WhereError(text, begin, stop, f"{name} has no setting {key[:60]!r}", known)
    must = (key for key, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING)
    missing = next((key for key in must if key not in settings), None)
    if missing is not None:
        raise WhereError(text, start, end, f"{name} needs its {missing}", f"write {name}({missing}=...)")
    for key, (value, begin, stop) in settings.items():
        fits, wanted = _fits(value, fields[key])
        if not fits:
            raise WhereError(text, begin, stop, f"{key} of {name} is {wanted}, not {spelled(value)[:60]}")
    if isinstance(score, type):
        try:
            score(**{key: value[0] for key, value in settings.items()})
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            detail = str(error)
            prefix = "" if detail.startswith(name) else f"{name}: "
            raise WhereError(text, start, end, prefix + detail) from None


def _fits(value: Setting, field: "dataclasses.Field[object]") -> tuple[bool, str]:
    """Return whether a value is of a setting's kind, and the name of that kind. The score itself checks other kinds."""
    default = field.default
    kind = getattr(field.type, "__name__", field.type) if default is dataclasses.MISSING else type(default).__name__
    if kind == "bool":
        return isinstance(value, bool), "true or false"
    if kind in {"int", "float"}:
        return isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
    if kind == "str":
        return isinstance(value, str), "a text"
    return True, ""


_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class Parser(ValueStream):
    """Parses one predicate.

    Grammar, loosest first::

        or      := and ("or" and)*
        and     := not ("and" not)*
        not     := "not" not | test
        test    := sum (("<" | "<=" | ">" | ">=" | "==" | "=" | "!=") sum)*
                 | sum ["not"] "in" ("(" constant ("," constant)* ")" | sum)
                 | sum ["not"] "between" sum "and" sum
                 | sum "is" ["not"] "null"
        sum     := product (("+" | "-") product)*
        product := unary (("*" | "/" | "//" | "%") unary)*
        unary   := "-" unary | "+" unary | atom
        atom    := number | text | "true" | "false" | "(" or ")"
                 | name | function "(" or ("," or)* ")" | name "(" [setting "=" constant ("," ...)*] ")"
    """

    def __init__(self, text: str, scores: Mapping[str, ScoreType]) -> None:
        super().__init__(text)
        self.scores = scores
        self._make = Builder(text)

    def parse(self) -> Piece:
        """Return the whole predicate. Raises WhereError."""
        if self.ends:
            raise WhereError(self.text, 0, 0, "the predicate is empty", "write for example: width >= 200; or: true")
        piece = self._or()
        if not self.ends:
            raise self.left_over()
        return self._make.condition(piece, "a predicate is")

    def _or(self) -> Piece:
        items = [self._and()]
        while self.take("word", "or"):
            items.append(self._and())
        return self._make.both("or", items)

    def _and(self) -> Piece:
        items = [self._not()]
        while self.take("word", "and"):
            items.append(self._not())
        return self._make.both("and", items)

    def _not(self) -> Piece:
        token = self.take("word", "not")
        if token is None:
            return self._test()
        self.deeper()
        body = self._not()
        self.nested -= 1
        return self._make.negation(body, token.start)

    def _test(self) -> Piece:
        left = self._sum()
        token = self.here
        if token.kind == "sign" and token.value in _COMPARISONS:
            return self._compare(left)
        if token.kind != "word" or token.value not in {"in", "between", "is", "not"}:
            return left
        how, body = left.over, left._replace(over="")  # any(x) not in (1, 2) is any(x not in (1, 2))
        if self.take("word", "is"):
            negated = self.take("word", "not") is not None
            piece = self._make.is_null(body, self.expect("word", "null", "`null` or `not null`").end)
        else:
            negated = self.take("word", "not") is not None
            if self.take("word", "in"):
                piece, how = self._in(body, how)
            else:
                self.expect("word", "between", "`in` or `between`")
                piece = self._between(body)
        piece = self._make.negation(piece, left.start) if negated else piece
        return self._make.over(how, piece, left.start, piece.end) if how else piece

    def _compare(self, left: Piece) -> Piece:
        signs, operands = [], [left]
        while token := self.take("sign", *_COMPARISONS):
            signs.append(str(token.value))
            operands.append(self._sum())
        if self.here.kind == "word" and self.here.value in {"in", "between", "is"}:
            raise self.wrong("`and`, `or` or the end", "put the comparison in parentheses")
        return self._make.compare(signs, operands)

    def _between(self, left: Piece) -> Piece:
        low = self._sum()
        self.expect("word", "and", "`and` and the upper end")
        high = self._sum()
        return self._make.between(left, low, high)

    def _in(self, left: Piece, how: str) -> tuple[Piece, str]:
        after = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        is_list = after.kind != "name" or left.node.kind != "text"
        if is_list and self.take("sign", "("):
            options = self._constants("a list of constants")
            return self._make.member(left, options, self.before.end), how
        whole = self._sum()
        if whole.node.kind != "text":
            raise self._make.error(whole, "`in` takes a list of constants or a text", "write x in (1, 2, 3)")
        self._make.alike(left, whole)
        if how:
            self._make.value(whole)
        piece = self._make.apply("contains", [whole._replace(over=""), left], left.start, whole.end)
        return piece, how or whole.over

    def _sum(self) -> Piece:
        left = self._product()
        while token := self.take("sign", "+", "-"):
            left = self._make.arithmetic(str(token.value), left, self._product())
        return left

    def _product(self) -> Piece:
        left = self._unary()
        while token := self.take("sign", "*", "/", "//", "%"):
            left = self._make.arithmetic(str(token.value), left, self._unary())
        return left

    def _unary(self) -> Piece:
        token = self.take("sign", "-", "+")
        if token is None:
            return self._atom()
        self.deeper()
        body = self._unary()
        self.nested -= 1
        if token.value == "+":
            return self._make.number(body, "+")._replace(start=token.start)
        return self._make.negate(body, token.start)

    def _atom(self) -> Piece:
        token = self.next()
        if token.kind == "name":
            return self._name(token)
        if token.kind in {"number", "text"}:
            return Piece(Literal(token.value), token.start, token.end)
        if token.kind == "word" and token.value in {"true", "false"}:
            return Piece(Literal(token.value == "true"), token.start, token.end)
        if token.kind == "sign" and token.value == "(":
            self.deeper()
            inner = self._or()
            end = self.expect("sign", ")", "a closing parenthesis").end
            self.nested -= 1
            return inner._replace(start=token.start, end=end)
        self.at -= token.kind != "end"
        if token.kind == "word" and token.value == "null":
            raise self.wrong("a value", "write `x is null` or `x is not null`")
        raise self.wrong("a value: a score, a number, a 'text'")

    def _name(self, token: Token) -> Piece:
        name, start = str(token.value), token.start
        if self.here.value == "(" and self.here.kind == "sign" and (name in FUNCTIONS or name in OVER_ENTRIES):
            return self._function(name, start)
        if name not in self.scores:
            raise _unknown(self.text, name, start, token.end, self.scores)
        settings = self._settings(name) if self.take("sign", "(") else {}
        score, end = self.scores[name], self.before.end
        if score.kind not in get_args(Kind):
            raise TypeError(f"score {name!r} has kind {score.kind!r}")
        _check_settings(self.text, name, score, settings, start, end)
        call = Call(name, tuple(sorted((key, value[0]) for key, value in settings.items())))
        return Piece(NameRef(call, cast("Kind", score.kind)), start, end)

    def _function(self, name: str, start: int) -> Piece:
        self.next()
        self.deeper()
        arguments: list[Piece] = []
        while not self.take("sign", ")"):
            if arguments:
                self.expect("sign", ",", "a comma or a closing parenthesis")
            arguments.append(self._or())
        self.nested -= 1
        end = self.before.end
        if name in FUNCTIONS:
            return self._make.apply(name, arguments, start, end)
        if len(arguments) != 1:
            hint = "it combines the images or texts of one sample; join conditions with `and` or `or`"
            raise WhereError(self.text, start, end, f"{name} takes 1 value, not {len(arguments)}", hint)
        return self._make.over(name, arguments[0], start, end)

    def _settings(self, name: str) -> Settings:
        found: Settings = {}
        bare = str(getattr(self.scores[name], "argument", ""))  # may be given without its name
        while not self.take("sign", ")"):
            if found:
                self.expect("sign", ",", "a comma or a closing parenthesis")
            token = self.here
            if token.kind != "name" and not found and bare:
                setting = bare
            elif token.kind == "name":
                self.next()
                setting = str(token.value)
                equal = self.expect("sign", "==", f"= and a value, as in {name}({setting}=1)")
                if equal.end - equal.start != 1:
                    raise WhereError(self.text, equal.start, equal.end, "a setting is written with one =")
            else:
                raise self.wrong("the name of a setting", f"write {name}(setting=value)")
            if setting in found:
                raise WhereError(self.text, token.start, token.end, f"the setting {setting!r} is given twice")
            value = self._setting()
            found[setting] = value, token.start, self.before.end
        return found

    def _constants(self, what: str) -> list[Piece]:
        """Read constants up to the closing parenthesis."""
        options: list[Piece] = []
        while not (options and self.take("sign", ")")):
            if options:
                self.expect("sign", ",", "a comma or a closing parenthesis")
                if self.take("sign", ")"):
                    break
            options.append(self._constant(what))
        return options

    def _constant(self, what: str) -> Piece:
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

    def _setting(self) -> Setting:
        """Read the value of a setting: a constant or a list of constants."""
        values: list[Scalar] = []
        if self.take("sign", "("):
            pieces = self._constants("a list of constants")
            values = [piece.node.value for piece in pieces if isinstance(piece.node, Literal)]
            return tuple(values)
        node = self._constant("a value of the setting").node
        assert isinstance(node, Literal)
        return node.value
