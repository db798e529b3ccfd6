"""The README's picture: what `wdsflow validate` prints for shards whose captions come after all images, as an SVG."""

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from . import faults, scenes
from .environment import ROOT

PICTURE = ROOT / "docs" / "images" / "validate.svg"
SHARDS = "shards/{000..003}.tar"
WIDTH = 106  # characters: the widest line of the report
SAMPLES, BYTES = 400, 8192
_FONT_FROM_A_HOST = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_TIME = re.compile(r"(level headers), [\d.]+ m?s")


def main(argv: Sequence[str]) -> int:
    """Write the picture, or compare it with ``--check``; return 1 if it is out of date."""
    parser = argparse.ArgumentParser(prog="scripts/picture", description="Draws the README's picture from a real run.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the picture is out of date")
    check = parser.parse_args(argv).check
    new = draw()
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == new:
        return 0
    if check:
        print(f"{PICTURE.relative_to(ROOT)} is out of date: run scripts/picture")
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(new, encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


def draw() -> str:
    """Return the SVG of a run. It names no host, no folder of this machine and no time."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True)
    console.print(Text(f"$ wdsflow validate '{SHARDS}'", style="bold"))
    console.print(Text.from_ansi(_printed().rstrip()))
    picture = console.export_svg(title="wdsflow validate", unique_id="wdsflow")
    return "\n".join(line.rstrip() for line in _FONT_FROM_A_HOST.sub("", picture).splitlines()) + "\n"


def _printed() -> str:
    """Return what the command prints on a terminal, without the time that it took."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = scenes.draw(SAMPLES)
        # All of one length: offsets and sizes in the report do not depend on the version of the JPEG encoder.
        padded = [scene._replace(jpeg=scene.jpeg.ljust(BYTES, b"\0")) for scene in drawn]
        faults.interleaved(Path(folder, "shards"), padded)
        run = [sys.executable, "-m", "wdsflow", "validate", SHARDS, "--for", "open-clip-3.3"]
        terminal = {"FORCE_COLOR": "1", "COLORTERM": "", "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | terminal
        environment["PYTHONPATH"] = str(ROOT)
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise RuntimeError(f"{' '.join(run)} ended with status {done.returncode}: {done.stderr}")
    return _TIME.sub(r"\1", done.stdout)
