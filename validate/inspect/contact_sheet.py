"""Samples on a contact sheet: one HTML page with thumbnails."""

from base64 import b64encode
from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING

from wdsflow.pages import render
from wdsflow.text.words import short_name

from .shown_sample import ShownSample, score_value_text

if TYPE_CHECKING:
    from PIL.Image import Image

# Letters of a caption.
_MOST_LETTERS = 200


def contact_sheet(samples: Iterable[ShownSample]) -> str:
    """Return an HTML page with the samples."""
    articles = [_article(sample) for sample in samples]
    return render("contact_sheet.html", title="wdsflow: contact sheet", samples=articles)


def _article(sample: ShownSample) -> dict[str, object]:
    """Return the template variables of a sample."""
    caption = ""
    for name, text in sample.texts.items():
        if name.lower().endswith("txt"):
            caption = text
            break
    images: list[dict[str, object]] = []
    for name, picture in sample.images.items():
        if isinstance(picture, str):
            images.append({"name": name, "trouble": picture})
        else:
            images.append({"name": name, "size": picture.size, "data": _jpeg(picture)})
    facts = list(sample.texts.items())
    if sample.outcome:
        facts.append(("outcome", sample.outcome))
    facts += [(name, score_value_text(value)) for name, value in sample.scores.items()]
    facts += list(sample.fates.items())
    return {
        "key": sample.listed.key,
        "shard": short_name(sample.url),
        "about": caption[:_MOST_LETTERS],
        "images": images,
        "facts": facts,
    }


def _jpeg(picture: "Image") -> str:
    """Return a picture as base64, for a page."""
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return b64encode(buffer.getvalue()).decode("ascii")
