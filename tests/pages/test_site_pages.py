"""The documentation site in a real browser: accessible, and without requests to other hosts."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browser import Opened

# Tests of pages share a browser, so they run in one process.
pytestmark = pytest.mark.xdist_group("pages")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> Path:
    subprocess.run([ROOT / "scripts" / "docs"], cwd=ROOT, check=True, capture_output=True)
    return ROOT / ".site"


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_the_site_has_a_serious_violation(
    chromium: Any, site: Path, scheme: str
) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    found: list[str] = []
    for path in pages:
        with Opened(chromium, path, color_scheme=scheme) as opened:
            found += [f"{path.relative_to(site)}: {each}" for each in opened.violations()]
            found += [each for each in opened.faults if each.startswith("request: http")]
    assert found == []
