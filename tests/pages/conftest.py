"""One Chromium for the tests of pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.pages.browser import browser


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running
