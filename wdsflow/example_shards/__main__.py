"""The command ``python -m wdsflow.example_shards``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from wdsflow.text.shell import quote_path

from .scenes import draw
from .shards import SHARDS, write_examples

SAMPLES = 40


def main(arguments: Sequence[str]) -> int:
    """Write the shards into a new folder, and return the exit status.

    The folder is "shards" unless another is named.
    """
    folder = Path(arguments[0] if arguments else "shards")
    # Also for "--help".
    if len(arguments) > 1 or str(folder).startswith("-"):
        print("usage: python -m wdsflow.example_shards [FOLDER]", file=sys.stderr)
        return 2
    try:
        write_examples(folder, draw(SAMPLES))
    except FileExistsError:
        other_folder = quote_path(f"{folder}-2")
        print(f"{folder} exists already; in another folder:", file=sys.stderr)
        print(f"  python -m wdsflow.example_shards {other_folder}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {folder}: {error.strerror}", file=sys.stderr)
        return 2
    shards = quote_path(f"{folder}/{{000..{SHARDS - 1:03d}}}.tar")
    print(f"{folder}: {SAMPLES} drawings with captions in json, in {SHARDS} shards")
    print(f"next: wdsflow validate {shards}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
