"""Samples in full on a console, with their pictures if the terminal shows any."""

import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wdsflow.text.install import install_extras
from wdsflow.text.shell import escape
from wdsflow.text.words import short_name, size

from ..report.writer import Writer
from .shown_sample import MOST_LETTERS, ShownSample, score_value_text

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console

# Characters of a picture.
_WIDTH = 40


def show_contents(samples: Iterable[ShownSample], console: "Console") -> int:
    """Print samples, and return how many there were."""
    draw = _pictures(console)
    writer = Writer(console)
    count = 0
    for sample in samples:
        count += 1
        key = escape(sample.listed.key, 200)
        writer.heading(
            f"{key} in {short_name(sample.url)}, first member at byte {sample.listed.offset:,}"
        )
        for name, length, _ in sample.listed.members:
            text = _description(sample, name, length)
            writer.line((f"{escape(name, 60)} ", "bold"), text, hang=2)
            picture = sample.images.get(name)
            if draw is not None and picture is not None and not isinstance(picture, str):
                draw(picture)
        if sample.outcome:
            writer.line(("outcome ", "dim"), escape(sample.outcome, 500), hang=2)
        for name, value in sample.scores.items():
            writer.line(
                (f"{escape(name, 200)} ", "dim"), escape(score_value_text(value), 500), hang=2
            )
        for name, text in sample.fates.items():
            writer.line((f"{name} ", "dim"), text, hang=2)
    return count


def _description(sample: ShownSample, name: str, length: int) -> str:
    """Return the text of a member, otherwise its size."""
    if name in sample.texts:
        return escape(sample.texts[name], MOST_LETTERS)
    picture = sample.images.get(name)
    if isinstance(picture, str):
        return f"{size(length)}, no picture: {escape(picture, 300)}"
    return size(length)


def _pictures(console: "Console") -> Callable[["Image"], None] | None:
    """Return the function that prints a picture.

    Returns None without a terminal that can be queried and can show pictures.
    """
    if not (console.is_terminal and _can_query_terminal()):
        return None
    # It warns if the terminal does not report its font.
    logging.getLogger("textual_image").setLevel(logging.ERROR)
    try:
        # On import it queries the terminal, and waits up to 0.1 s for each answer.
        from textual_image.renderable import Image as Renderable
    except ImportError:
        console.print(
            f"to see pictures here: {install_extras('pictures')}", soft_wrap=True, markup=False
        )
        return None

    def draw(picture: "Image") -> None:
        renderable: Any = Renderable(picture, width=_WIDTH)
        console.print(renderable)

    return draw


def _can_query_terminal() -> bool:
    """Return whether the terminal can be queried: that would stop a process in the background."""
    with suppress(OSError, ValueError, AttributeError):
        if os.environ.get("TERM", "dumb") == "dumb":
            return False
        streams = [stream for stream in (sys.__stdin__, sys.__stdout__) if stream is not None]
        if not all(stream.isatty() for stream in streams):
            return False
        return os.get_terminal_size(1).columns > 0 and os.tcgetpgrp(0) == os.getpgrp()
    return False
