"""A contact sheet: one page with thumbnails, captions and scores of samples, to open from disk."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from wdsflow.pages import render
from wdsflow.text.words import short

from .shown_sample import ShownSample, jpeg


def contact_sheet(samples: Iterable[ShownSample]) -> str:
    """Return the page."""
    return render("contact_sheet.html", title="wdsflow: contact sheet", samples=[*map(_article, samples)])


def _article(sample: ShownSample) -> dict[str, Any]:
    caption = next((text for name, text in sample.texts.items() if name.lower().endswith("txt")), "")
    return {
        "key": sample.listed.key,
        "shard": short(sample.url),
        "about": caption[:200],
        "images": [
            {"name": name, "trouble": picture}
            if isinstance(picture, str)
            else {"name": name, "size": picture.size, "data": b64encode(jpeg(picture)).decode("ascii")}
            for name, picture in sample.images.items()
        ],
        "facts": [*sample.texts.items(), *sample.scores.items()],
    }
