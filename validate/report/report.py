"""The result of validation, and how it is shown."""

from dataclasses import dataclass
from typing import Any

from .as_json import to_dict
from .report_model import Results
from .report_text import render


@dataclass(frozen=True, slots=True)
class Report(Results):
    """The verdict for each reader, its findings, and what to do.

    ``str(report)`` is the text that ``wdsflow validate`` prints, ``report.to_dict()`` what ``--format json`` holds;
    a notebook shows it as a page.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists; ``schema/report.schema.json`` describes them."""
        return to_dict(self)

    def __str__(self) -> str:
        return render(self, width=100)

    def _repr_html_(self) -> str:
        from .html import fragment  # needs numpy: only a notebook asks for it

        return fragment(self)
