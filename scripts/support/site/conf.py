"""Sphinx's settings for the site. Sphinx runs this file; it is imported by nothing of ours."""

import hashlib
import os
import shutil

# Sphinx takes `version` for a setting.
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import mermaidx
from docutils import nodes
from docutils.parsers.rst import Directive

project = "wdsflow"
author = copyright = "The wdsflow authors"  # noqa: A001
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_title = "wdsflow"
html_copy_source = False
# Messages in titles are searched for as they are printed.
smartquotes = False
html_show_sphinx = False
html_extra_path: list[str] = []

# The anchors that GitHub gives: links work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
myst_fence_as_directive = ["mermaid"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True

_DRAWINGS = "_drawings"


class Mermaid(Directive):  # type: ignore[misc]  # docutils is not installed where types are checked
    """A Mermaid drawing as an SVG file, made now: the page runs no renderer and loads nothing."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the picture. The text itself is its description, for people who cannot see it."""
        text = "\n".join(self.content)
        build = self.state.document.settings.env.app
        name = hashlib.sha256(f"{version_of('mermaidx')} {text}".encode()).hexdigest()[:16] + ".svg"
        folder = Path(build.outdir) / _DRAWINGS
        folder.mkdir(parents=True, exist_ok=True)
        # Kept: a drawing takes seconds.
        drawn = Path(build.doctreedir) / name
        if not drawn.is_file():
            half = drawn.with_suffix(f".{os.getpid()}")
            half.write_text(mermaidx.render(text).svg(), encoding="utf-8")
            half.replace(drawn)
        shutil.copy(drawn, folder)
        up = "../" * build.env.docname.count("/")
        alt = (
            text.replace("&", "&amp;")
            .replace('"', "&quot;")
            .replace("<", "&lt;")
            .replace("\n", "&#10;")
        )
        # White, because the lines are dark: the drawing is the same on the dark page.
        style = "background: white; padding: 0.5em; max-width: 100%"
        html = f'<img src="{up}{_DRAWINGS}/{name}" alt="Drawing, in Mermaid:&#10;{alt}" style="{style}">'
        return [nodes.raw("", html, format="html")]


def for_keyboards_and_screen_readers(app: Any, failure: Exception | None) -> None:
    """Add accessibility features that Sphinx leaves out.

    These are the level of the sidebar's headings, and scrolling of code and tables by keyboard.
    """
    for path in [] if failure else Path(app.outdir).rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        html = html.replace(
            'class="caption" role="heading"', 'class="caption" role="heading" aria-level="2"'
        )
        html = html.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
        path.write_text(html.replace("<pre>", '<pre tabindex="0">'), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Add what is our own."""
    app.add_directive("mermaid", Mermaid)
    app.connect("build-finished", for_keyboards_and_screen_readers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
