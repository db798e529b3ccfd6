"""The report and its formats."""

from .report import Report
from .report_model import Results

FORMATS = ("text", "json", "sarif", "junit", "github", "html")


def render(report: Results, form: str, width: int = 100) -> str:
    """Return the report in one of ``FORMATS``, without colour.

    Args:
        report: report of ``check``.
        form: name of the format.
        width: characters per line, for "text".

    Raises:
        ValueError: an unknown format.
    """
    if form == "text":
        from . import report_text

        return report_text.render(report, width)
    if form not in FORMATS:
        raise ValueError(f"no format is called {form!r}; use one of {', '.join(FORMATS)}")
    from importlib import import_module

    name = "as_json" if form == "json" else form
    rendered = import_module(f"{__name__}.{name}").render(report)
    assert isinstance(rendered, str)
    return rendered


def schema() -> str:
    """Return the JSON Schema of the format "json"."""
    from importlib import resources

    return resources.files(__name__).joinpath("schema/report.schema.json").read_text(encoding="utf-8")


__all__ = ["FORMATS", "Report", "render", "schema"]
