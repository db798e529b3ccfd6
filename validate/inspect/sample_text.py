"""Single samples on a console, with pictures if it is a terminal that shows them."""

import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wdsflow.text.install import install_extras
from wdsflow.text.shell import escape
from wdsflow.text.words import short, size

from ..report.report_text import Writer
from .shown_sample import ShownSample

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

_WIDTH = 40  # characters of a picture
_LONGEST = 4_000  # characters of a text


def show_contents(samples: Iterable[ShownSample], console: "Console") -> int:
    """Print samples, and return how many there were."""
    count, draw, writer = 0, _pictures(console), Writer(console)
    for count, sample in enumerate(samples, 1):  # noqa: B007 - the last number is the result
        writer.heading(f"{escape(sample.listed.key, 200)} in {short(sample.url)}, byte {sample.listed.offset:,}")
        for name, length, _ in sample.listed.members:
            writer.line((f"{escape(name, 60)} ", "bold"), _about(sample, name, length), hang=2)
            picture = sample.images.get(name)
            if draw is not None and picture is not None and not isinstance(picture, str):
                draw(picture)
        for name, value in sample.scores.items():
            writer.line((f"{escape(name, 200)} ", "dim"), escape(value, 500), hang=2)
    return count


def _about(sample: ShownSample, name: str, length: int) -> str:
    if name in sample.texts:
        return escape(sample.texts[name], _LONGEST)
    picture = sample.images.get(name)
    return f"{size(length)}{f', no picture: {escape(picture, 300)}' if isinstance(picture, str) else ''}"


def _pictures(console: "Console") -> Callable[["Image"], None] | None:
    """Return the function that prints a picture; None if nobody would see it, or the terminal cannot be asked."""
    if not (console.is_terminal and _answers()):
        return None
    logging.getLogger("textual_image").setLevel(logging.ERROR)  # it warns if the terminal does not tell its font
    try:  # on import it asks the terminal, and waits a tenth of a second for each answer
        from textual_image.renderable import Image as Renderable
    except ImportError:
        console.print(f"to see pictures here: {install_extras('pictures')}", soft_wrap=True, markup=False)
        return None

    def draw(picture: "Image") -> None:
        renderable: Any = Renderable(picture, width=_WIDTH)
        console.print(renderable)

    return draw


def _answers() -> bool:
    """Return whether the terminal can be asked what it shows: a process in the background would be stopped for it."""
    with suppress(OSError, ValueError, AttributeError):
        there = os.environ.get("TERM", "dumb") != "dumb" and all(
            stream.isatty() for stream in (sys.__stdin__, sys.__stdout__) if stream is not None
        )
        return there and os.get_terminal_size(1).columns > 0 and os.tcgetpgrp(0) == os.getpgrp()
    return False
