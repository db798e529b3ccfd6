"""Builds the site from docs/ in an environment that has Sphinx alone, and checks what it wrote."""

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.environment import ROOT, ensure_sphinx

from .links import broken_links

FOLDER = ROOT / ".site"
SETTINGS = Path(__file__).parent


def main(argv: Sequence[str]) -> int:
    """Build the site, and return the exit status.

    It is 1 if Sphinx warned, or if a link or a picture of a page leads nowhere.
    """
    parser = argparse.ArgumentParser(
        prog="scripts/docs", description="Builds the documentation site; needs no network."
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=FOLDER, help="folder of the site (.site)"
    )
    folder = parser.parse_args(argv).output
    shutil.rmtree(folder, ignore_errors=True)
    run = [
        str(ensure_sphinx()),
        "-m",
        "sphinx",
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
    ]
    # All settings and intermediate files are outside of the
    # site: what is in the folder can be published.
    run += [
        "--fresh-env",
        "--jobs",
        "2",
        "--doctree-dir",
        str(ROOT / ".test" / "doctrees"),
        "--conf-dir",
        str(SETTINGS),
    ]
    if subprocess.run([*run, str(ROOT / "docs"), str(folder)], cwd=ROOT, check=False).returncode:
        print("scripts/docs: Sphinx reports errors or warnings, above")
        return 1
    problems = list(broken_links(folder))
    for page, link, reason in problems:
        print(f"{page}: {link}: {reason}")
    if problems:
        print(f"scripts/docs: {len(problems)} links lead nowhere")
        return 1
    print(f"wrote the site: open {folder / 'index.html'}")
    return 0
