"""Why a row becomes no sample."""

# Reasons that mean damage: files or values are not what the table says. The exit status is then 1.
MISSING = "missing file"
OUTSIDE = "outside of the root"
NO_PATH = "not a path"
NOT_AN_IMAGE = "not an image or video"
UNREADABLE = "file that cannot be read"
NOT_TEXT = "caption that is not text"
LONG_TEXT = "caption longer than 1 MiB"
NOT_JSON = "json that is not JSON"
BAD_KEY = "key that is not text"
LONG_NAME = "name longer than 100 bytes"
# Reasons that only mean that the row has nothing to make a sample of.
NO_IMAGE = "no image"
NO_CAPTION = "no caption"
NO_KEY = "no key"
REPEATED = "repeated key"

HARMLESS = frozenset((NO_IMAGE, NO_CAPTION, NO_KEY, REPEATED))


_KINDS = {
    int: "a number",
    float: "a number",
    bool: "true or false",
    str: "text",
    bytes: "bytes",
    list: "a list",
    dict: "an object",
}


def described(value: object) -> str:
    """Return what a value is, for a message.

    >>> described(7), described([]), described(None)
    ('7 is a number', '[] is a list', 'it is empty')
    """
    if value is None:
        return "it is empty"
    return f"{value!r:.80} is {_KINDS.get(type(value), f'of the type {type(value).__name__}')}"


class Unusable(Exception):
    """A row that becomes no sample.

    Attributes:
        reason: one of the above.
        column: the column at fault, "" if the row is no row of a table.
        detail: the value, and what is wrong with it.
        value: the path in the cell as it is, "" if it is none.
    """

    def __init__(self, reason: str, detail: str, column: str = "", value: str = "") -> None:
        super().__init__(reason, detail, column, value)
        self.reason, self.detail, self.column, self.value = reason, detail, column, value
