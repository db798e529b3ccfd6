"""The report and its formats."""

from importlib import import_module, resources

from .report import Report

__all__ = ["FORMATS", "Report", "render", "schema"]

FORMATS = ("text", "json", "sarif", "github", "html")


def render(report: Report, form: str, width: int = 100) -> str:
    """Return the report in one of ``FORMATS``, without colour.

    Args:
        report: report of ``check``.
        form: name of the format.
        width: characters per line, for "text".

    Raises:
        ValueError: an unknown format.
    """
    if form not in FORMATS:
        raise ValueError(f"no format is called {form!r}; use one of {', '.join(FORMATS)}")
    if form == "text":
        from .report_text import render

        return render(report, width)
    name = "as_json" if form == "json" else form
    rendered = import_module(f"{__name__}.{name}").render(report)
    assert isinstance(rendered, str)
    return rendered


def schema() -> str:
    """Return the JSON Schema of the format "json"."""
    file = resources.files(__name__).joinpath("schema/report.schema.json")
    return file.read_text(encoding="utf-8")
