"""How the demonstration speaks: headings, commands as one would type them, and what they print."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "wdsflow"


def wdsflow(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Show a command, and run it."""
    print(f"$ wdsflow {' '.join(shell_word(word) for word in arguments)}", flush=True)
    environment = os.environ | {
        "COLUMNS": str(min(shutil.get_terminal_size((100, 40)).columns, 110))
    }
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def shell_word(word: str) -> str:
    """Quote a word as a person would."""
    if re.fullmatch(r"[\w./:=-]+", word):
        return word
    return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)


def indent(text: str) -> str:
    """Move lines to the right of the commands that printed them."""
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def bold(text: str) -> str:
    """Return the text in bold on a terminal."""
    return (
        f"\033[1m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text
    )


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n{bold(text)}", flush=True)
