"""Prints lines to a console.

Text is wrapped with a hanging indent. Commands are not wrapped, because they are to be copied.
"""

from typing import TYPE_CHECKING

from wdsflow.text.words import command_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


# Characters that a line has at least, on any terminal.
_NARROWEST = 20


class Writer:
    """Prints lines with a hanging indent, and without trailing blanks."""

    def __init__(self, console: "Console") -> None:
        self.console = console

    def blank(self) -> None:
        """Print an empty line."""
        self.console.print()

    def line(self, *parts: "str | tuple[str, str] | Text", indent: int = 0, hang: int = 0) -> None:
        """Print parts, wrapped; each part is a text or (text, style).

        Lines after the first are indented by ``hang`` more.
        """
        from rich.text import Text

        body = Text.assemble(*parts)
        width = max(self.console.width - indent, _NARROWEST)
        # The first line may be longer than the others, which have a hanging indent: the rest is
        # wrapped by itself.
        first = (body.wrap(self.console, width) or [Text()])[0]
        lines = [first]
        rest = body[len(first.plain) :]
        if rest.plain.strip():
            blanks = len(rest.plain) - len(rest.plain.lstrip())
            lines += rest[blanks:].wrap(self.console, max(width - hang, _NARROWEST))
        for number, text in enumerate(lines):
            text.rstrip()
            margin = indent + hang if number else indent
            shown = Text(" " * margin) + text if text.plain else Text()
            self.console.print(shown, soft_wrap=True)

    def command(self, command: str, indent: int = 0) -> None:
        """Print a command, or a line that ends in one, ready to paste.

        It is never wrapped, and nothing is around it.
        """
        from rich.text import Text

        for line in command_lines(command):
            self.console.print(
                Text(" " * indent + line if line else "", style="bold"), soft_wrap=True
            )

    def row(self, text: str, indent: int = 0, style: str = "") -> None:
        """Print a row of a table, cut at the edge to keep the columns aligned."""
        from rich.text import Text

        self.console.print(
            Text(" " * indent + text, style=style), no_wrap=True, overflow="ellipsis", crop=True
        )

    def heading(self, text: str) -> None:
        """Print a heading after an empty line."""
        self.blank()
        self.line((text, "bold underline"))
