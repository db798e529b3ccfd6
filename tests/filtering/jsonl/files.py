"""Small data sets in Data-Juicer's form."""

import json

from tests.filtering.shards import picture

IMAGE, END = "<__dj__image>", "<|__dj__eoc|>"
SIDES = (64, 150, 220, 300)


def write_images(folder, count=6):
    (folder / "images").mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(count):
        side = SIDES[number % len(SIDES)]
        names.append(f"images/{number}.jpg")
        (folder / names[-1]).write_bytes(picture(side, side + 10, number))
    return names


def rows(names, token=IMAGE):
    """A row for each image, in odd spellings of JSON, with content of the user's own."""
    for number, name in enumerate(names):
        row = {"id": f"r{number}", "images": [name], "text": f"{token} words of number {number} {END}"}
        yield (json.dumps(row, ensure_ascii=number % 2 == 0, separators=(" ,", ":  ")) + " " * number).encode()


def write_lines(folder, lines, name="data.jsonl", end=b"\n"):
    path = folder / name
    path.write_bytes(b"\n".join(lines) + end)
    return path


def write_set(folder, count=6, token=IMAGE, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    return write_lines(folder, list(rows(write_images(folder, count), token)), **settings)
