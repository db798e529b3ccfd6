"""Commands and snippets as programs print them, and what comes of pasting them.

A command begins a line or follows ``: ``, and ends with its line. It is handed to bash as it is
printed; what bash makes of it is run in this process, in the folder where the user stood.
"""

import contextlib
import html
import io
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from wdsflow.cli.main import COMMANDS, main

_OURS = rf"wdsflow (?:{'|'.join(COMMANDS)})\b"
_INSTALL = r"(?:\S*python[\d.]* -m pip|uv pip|pip) install\b"
# Anywhere in a line: a command that is followed by words of
# the message is none, and shows when it is run.
_COMMAND = re.compile(rf"(?:{_OURS}|{_INSTALL}).*$", re.MULTILINE)
# Of SARIF: manual pages; of JSON: names.
_ROOMS = frozenset({"help", "fullDescription", "shortDescription", "fields"})


class Done(NamedTuple):
    """What became of a command."""

    status: int
    out: str
    errors: str


def commands(text: str) -> list[str]:
    """Return the commands in a text, each once, in order."""
    return list(dict.fromkeys(match[0] for match in _COMMAND.finditer(text)))


def snippets(text: str) -> list[str]:
    """Return the blocks of Python code in a text: indented, from their first import on."""
    blocks = re.finditer(r"^( +)import .*\n(?:(?:\1.*)?\n)*", text, re.MULTILINE)
    return [textwrap.dedent(block[0]).strip() for block in blocks]


def texts(report: str, form: str) -> str:
    """Return all that a person reads in a report of a format, as plain text."""
    if form == "html":
        return html.unescape(re.sub(r"<[^>]*>", "\n", report))
    if form == "github":
        return re.sub("%(25|0D|0A|3A|2C)", lambda code: chr(int(code[1], 16)), report)
    if form in ("json", "sarif"):
        return "\n".join(_strings(json.loads(report)))
    return report


def _strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for name, value in tree.items():
            if name not in _ROOMS:
                yield from _strings(value)
    elif isinstance(tree, list):
        for each in tree:
            yield from _strings(each)


def words(command: str) -> list[str]:
    """Return the words into which bash splits one of our commands.

    Any other command in the line is an error.
    """
    script = f"""wdsflow() {{ printf '%s\\0' "$@"; }}; PATH=; set -eu; {command}"""
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
    return [word.decode("utf-8", "surrogateescape") for word in done.stdout.split(b"\0")[:-1]]


def paste(command: str, folder: Path) -> Done:
    """Run a command of ours as it was printed, in a folder."""
    return run(words(command), folder)


def run(argv: list[str], folder: Path) -> Done:
    """Run a command of ours in a folder."""
    out, errors = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                main(argv)
                status: Any = 0
            except SystemExit as ended:
                status = ended.code
    finally:
        os.chdir(before)
    return Done(int(status or 0), out.getvalue(), errors.getvalue())
