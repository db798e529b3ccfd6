"""Self-contained HTML pages with samples and histograms.

Each is one file that loads nothing from elsewhere.
"""

import base64
import hashlib
import json
import re
from importlib import resources

from wdsflow.text.words import command_lines, plain_line

_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(
    template: str, *, scripts: tuple[str, ...] = (), data: object = None, **values: object
) -> str:
    """Return a page.

    A browser runs only the scripts named here, loads nothing, and sends nothing: the page's own
    policy forbids it. All values are escaped, control characters included.

    Args:
        template: name of a file in ``templates``.
        scripts: names of files in ``static``, in the order in which they run.
        data: plain values for the scripts, which read them as JSON.
        values: values for the template.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.finalize = _without_control_characters
    environment.filters["number"] = "{:,}".format
    environment.filters["command"] = _command
    style = _static("page.css")
    if scripts:
        style += _static("uPlot.min.css")
    texts = [_static(name) for name in scripts]
    return environment.get_template(template).render(
        **values,
        page_style=Markup(style),  # noqa: S704 - our own
        page_scripts=[Markup(text) for text in texts],  # noqa: S704 - our own
        # The page's policy allows scripts with these digests only.
        page_hashes=" ".join(f"'sha256-{_digest(text)}'" for text in texts),
        page_data=Markup(_json(data)) if data is not None else "",  # noqa: S704 - escaped by _json
    )


def _without_control_characters(value: object) -> object:
    """Return a value of a template without control characters; markup stays as it is."""
    return value if hasattr(value, "__html__") else plain_line(str(value))


def _command(text: str) -> str:
    """Return a command as markup, one line of it a line."""
    from markupsafe import Markup

    return Markup("\n").join(command_lines(text))


def _static(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(data: object) -> str:
    """Return JSON without characters of markup, regardless of its texts."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda match: _MARKUP[match[0]], text)
