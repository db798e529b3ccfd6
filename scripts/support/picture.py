"""Pictures for README and docs.

They are SVG files of what our commands print for small sets, and of the pages that they write.
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from wdsflow import example_shards

from . import faults
from .environment import ROOT

IMAGES = ROOT / "docs" / "images"
SHARDS = "shards/{000..003}.tar"
# Characters: the widest line of the report.
WIDTH = 106
SAMPLES, BYTES = 400, 8192


@dataclass(frozen=True)
class Picture:
    """One picture: a set, and the command that is run on it."""

    name: str
    make: Callable[[Path, list[example_shards.Scene]], None]
    # After `wdsflow`.
    command: str
    # Further ones, that the picture does not show.
    options: tuple[str, ...] = ()
    status: int = 0


PICTURES = [
    Picture("validate", faults.interleaved, f"validate '{SHARDS}'", ("--for", "open-clip-3.3"), 1),
    Picture(
        "filter",
        faults.valid,
        f"filter '{SHARDS}' -o kept --where \"min_side >= 100 and 'evening' in caption and not duplicate\"",
    ),
]
_FONT_FROM_A_HOST = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_TIME = re.compile(r"(level \w+), [\d.]+ m?s")


def main(argv: Sequence[str]) -> int:
    """Write the pictures, or compare them with ``--check``; return 1 if one is out of date."""
    parser = argparse.ArgumentParser(
        prog="scripts/picture", description="Draws the pictures of terminals in the docs."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a picture is out of date"
    )
    parser.add_argument(
        "--pages", action="store_true", help="also take pictures of HTML pages, by Chromium"
    )
    given = parser.parse_args(argv)
    check = given.check
    if given.pages:
        take_pages()
    stale = 0
    IMAGES.mkdir(exist_ok=True)
    for picture in PICTURES:
        path, new = IMAGES / f"{picture.name}.svg", draw(picture)
        if path.is_file() and path.read_text(encoding="utf-8") == new:
            continue
        stale += 1
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run scripts/picture")
        else:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return int(check and stale > 0)


def draw(picture: Picture) -> str:
    """Return the SVG of a run. It names no host, no folder of this machine and no time."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True)
    console.print(Text(f"$ wdsflow {picture.command}", style="bold"))
    console.print(Text.from_ansi(_printed(picture).rstrip()))
    svg = console.export_svg(title=f"wdsflow {picture.name}", unique_id="wdsflow")
    return "\n".join(line.rstrip() for line in _FONT_FROM_A_HOST.sub("", svg).splitlines()) + "\n"


def _printed(picture: Picture) -> str:
    """Return what the command prints on a terminal, without the time that it took."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = example_shards.draw(SAMPLES)
        # All of one length: offsets and sizes in the report
        # do not depend on the version of the JPEG encoder.
        padded = [scene._replace(jpeg=scene.jpeg.ljust(BYTES, b"\0")) for scene in drawn]
        picture.make(Path(folder, "shards"), padded)
        run = [sys.executable, "-m", "wdsflow", *shlex.split(picture.command), *picture.options]
        terminal = {
            "FORCE_COLOR": "1",
            "COLORTERM": "",
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
        }
        environment = {
            name: value for name, value in os.environ.items() if name != "NO_COLOR"
        } | terminal
        environment["PYTHONPATH"] = str(ROOT)
        done = subprocess.run(
            run, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != picture.status:
        raise RuntimeError(f"{' '.join(run)} ended with status {done.returncode}: {done.stderr}")
    return _TIME.sub(r"\1", done.stdout)


@contextmanager
def _named_folder() -> Iterator[Path]:
    """Make a folder with the same name each time, because pages show paths; remove it at the end.

    Raises FileExistsError if it exists.
    """
    folder = Path(tempfile.gettempdir(), "example")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def take_pages() -> None:
    """Write pictures of the page of a run and the page of a validation.

    They are not checked, because fonts differ.
    """
    from playwright.sync_api import sync_playwright

    with _named_folder() as folder, sync_playwright() as playwright:
        faults.valid(Path(folder, "shards"), example_shards.draw(SAMPLES))
        faults.captions_in_json(Path(folder, "damaged"), example_shards.draw(SAMPLES))
        run = [sys.executable, "-m", "wdsflow"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        for words in (
            "filter shards -o kept --where 'blur > 400 and not duplicate' --scores entropy",
            "report kept -o report.html",
            "validate damaged --for open-clip-3.3 --format html --output validation.html",
        ):
            subprocess.run(
                [*run, *shlex.split(words)],
                cwd=folder,
                env=environment,
                check=False,
                stdout=sys.stderr,
            )
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in ("report", "validation"):
            page = browser.new_page(viewport={"width": 1000, "height": 900})
            page.goto(Path(folder, f"{name}.html").as_uri())
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"{name}.png")
            print(f"wrote docs/images/{name}.png")
        browser.close()
