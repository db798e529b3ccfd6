"""A real Chromium that opens our pages from disk, and notes all that it should not do."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
)


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium; the test is skipped if there is none."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=[*_QUIET])
        try:
            yield running
        finally:
            running.close()


class Opened:
    """A page in the browser.

    ``faults``: console messages, exceptions, dialogs, and requests for anything other than the
    page.
    """

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.faults: list[str] = []
        self._context = browser.new_context(**context)
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        address = path.absolute().as_uri()
        self.page.on(
            "request",
            lambda request: (
                self.faults.append(f"request: {request.url}")
                if request.url != address and not request.url.startswith("data:")
                else None
            ),
        )
        self.page.goto(address)

    def __enter__(self) -> "Opened":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def _dismiss(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def violations(self) -> list[str]:
        """Return what axe-core finds that is serious or critical."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"]
        ]
