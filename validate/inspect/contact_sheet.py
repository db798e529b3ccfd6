"""A contact sheet: one page with thumbnails, captions and scores of samples, to open from disk."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape as quoted
from typing import Any

from wdsflow.text.escape import escape
from wdsflow.text.words import short

from .shown_sample import ShownSample, jpeg

_LONGEST = 1_000  # characters of a text
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>wdsflow: contact sheet</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; margin: 0 auto; max-width: 96rem; padding: 1.5rem 1rem; overflow-wrap: anywhere; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); }
article { border: 1px solid #8886; border-radius: .4em; padding: .8em; break-inside: avoid; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto .5em; }
h2 { font-size: 1em; margin: 0; }
p, dl { margin: .3em 0; }
dt { font-weight: 600; font-size: .85em; }
dd { margin: 0 0 .3em; }
.shard { opacity: .75; font-size: .85em; }
</style>
</head>
<body>
<h1>Contact sheet</h1>
<main>
"""


def contact_sheet(samples: Iterable[ShownSample]) -> Iterator[str]:
    """Yield the parts of the page; one sample is in memory at a time."""
    yield _HEAD
    for sample in samples:
        yield "".join(_article(sample))
    yield "</main>\n</body>\n</html>\n"


def _article(sample: ShownSample) -> Iterator[str]:
    caption = next((text for name, text in sample.texts.items() if name.lower().endswith("txt")), "")
    yield "<article>\n"
    for name, picture in sample.images.items():
        if isinstance(picture, str):
            yield f"<p>{_text(name)}: no picture: {_text(picture)}</p>\n"
            continue
        width, height = picture.size
        data: Any = b64encode(jpeg(picture)).decode("ascii")
        about = _text(caption or f"{sample.listed.key}.{name}", 200)
        yield f'<img src="data:image/jpeg;base64,{data}" width="{width}" height="{height}" alt="{about}">\n'
    yield f"<h2>{_text(sample.listed.key)}</h2>\n<p class=shard>{_text(short(sample.url))}</p>\n"
    rows = [*sample.texts.items(), *sample.scores.items()]
    if rows:
        yield "<dl>\n"
        yield from (f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>\n" for name, text in rows)
        yield "</dl>\n"
    yield "</article>\n"


def _text(text: str, limit: int = _LONGEST) -> str:
    """Escape twice: control characters for people, markup for the browser."""
    return quoted(escape(text, limit))
