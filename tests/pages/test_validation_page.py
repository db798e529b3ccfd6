"""The page of a validation, in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from tests.filtering.shards import entries, picture
from tests.pages.browser import Opened
from tests.shards.archives import write_tar
from wdsflow import check
from wdsflow.validate.report import render
from wdsflow.validate.report.sample_statistics import CONTEXT, SampleStatistics, read_statistics

# Tests of pages share a browser, so they run in one process.
pytestmark = pytest.mark.xdist_group("pages")

HOSTILE = '</script><img src=x onerror="alert(1)"><b>bold</b>'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("validation")
    write_tar(
        folder / "0.tar",
        [*entries(0, 20), ("html.jpg", b"<!doctype html><p>404"), ("html.txt", HOSTILE.encode())],
    )
    write_tar(
        folder / "1.tar",
        [*entries(1, 20), ("gif.jpg", picture(40, 30, 1, "GIF")), ("gif.txt", b"word " * 200)],
    )
    arguments = ["--train-data", str(folder / "{0..1}.tar"), "--batch-size", "4", "--workers", "2"]
    arguments += ["--train-num-samples", "40"]
    return check([str(folder)], ["open-clip"], arguments=arguments)


@pytest.fixture(scope="module")
def page(report: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(report, "html"), encoding="utf-8")
    return path


def test_findings_show_their_samples_and_texts_from_the_data_run_nothing(
    chromium: Any, page: Path
) -> None:
    with Opened(chromium, page) as opened:
        gallery = opened.page.locator("details", has_text="I210").locator(".gallery")
        assert gallery.locator("b").all_text_contents() == ["html"]
        assert "not-an-image" in (gallery.locator(".blank").text_content() or "")
        assert HOSTILE in (gallery.text_content() or "")
        wrong = opened.page.locator("details", has_text="F104").locator(".gallery img")
        assert wrong.evaluate(
            "image => image.decode().then(() => image.naturalWidth / image.naturalHeight)"
        ) == pytest.approx(4 / 3)
        assert opened.page.locator(".plot canvas").count() == 6  # five of samples, one of workers
        assert opened.faults == []


def test_a_fix_is_copied_as_it_is_to_be_typed(chromium: Any, page: Path, report: Any) -> None:
    with Opened(chromium, page, permissions=["clipboard-read", "clipboard-write"]) as opened:
        opened.page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        first = opened.page.locator(".command").first
        first.locator("button").click()
        opened.page.wait_for_function("document.querySelector('.copy').textContent === 'Copied'")
        assert (
            opened.page.evaluate("navigator.clipboard.readText()")
            == first.locator("pre").text_content()
        )


@pytest.mark.sample(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_use_it(chromium: Any, page: Path, scheme: str) -> None:
    with Opened(chromium, page, color_scheme=scheme) as opened:
        opened.page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        assert opened.violations() == []


def test_histograms_are_of_all_samples_or_say_of_which(report: Any) -> None:
    shards = report.evidence.shards
    seen = read_statistics(shards)
    assert (seen.samples, seen.shards, seen.complete) == (42, 2, True)
    assert seen.formats == {"jpeg": 40, "gif": 1, "not an image": 1}
    charts = {each.name: each for each in seen.charts()}
    assert sum(charts["width"].counts) == 41
    assert charts["caption"].marks == (CONTEXT,)
    assert sum(charts["caption"].counts) == 42
    some = read_statistics(shards, most=10)
    assert (some.samples, some.complete) == (10, False)


def test_of_many_captions_an_even_part_is_counted_and_named():
    seen = SampleStatistics(captions=["one"] * 6_000 + ["one two three"] * 6_000)
    (chart,) = seen.charts()
    assert "every 3rd caption" in chart.title
    assert (chart.counts[0], sum(chart.counts)) == (2_000, 4_000)
