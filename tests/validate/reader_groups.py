"""What each reader makes of shards, in a few lines.

A golden file should not name every reader.
"""

from collections.abc import Mapping

OTHERS = "all others"


def reader_groups(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the names of readers with the same text, and that text.

    The largest group is named "all others".

    So a new reader that behaves as most of them changes no golden file.
    """
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    # The first of several that are equally large.
    largest = max(groups, key=lambda text: len(groups[text]))
    named = [(", ".join(names), text) for text, names in groups.items() if text != largest]
    return [*named, (OTHERS if len(groups[largest]) > 1 else groups[largest][0], largest)]
