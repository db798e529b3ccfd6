from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests import factories
from wdsflow.validate.report import render
from wdsflow.validate.report.defect_table import defect_table
from wdsflow.validate.report.html import fragment

VOID = {"meta", "br", "img", "input"}


class Page(HTMLParser):
    """Notes the tags and texts of a page, and that tags close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("make", [factories.healthy, factories.stalled, factories.nasty])
def test_a_page_is_whole_and_asks_nothing_from_outside(make):
    page = Page(render(make(), "html"))
    assert page.open == []
    assert set(page.tags).isdisjoint({"link", "iframe", "object"})
    assert [
        name for name, _ in page.attributes if name in {"src", "href"} or name.startswith("on")
    ] == []
    assert page.tags.count("script") == 3  # uPlot, ours, and the data


@pytest.mark.parametrize("make", [factories.healthy, factories.stalled, factories.nasty])
def test_a_notebook_gets_an_element_without_scripts(make):
    page = Page(fragment(make()))
    assert page.open == []
    assert set(page.tags).isdisjoint({"script", "link", "img", "iframe", "object", "button"})


def test_shards_without_a_usable_sample_and_those_with_damage_are_in_the_table():
    report = factories.healthy()
    barren, damaged = report.evidence.shards[1:]
    damaged.samples_after_stop = 4
    verdict = replace(report.verdicts[0], barren=(barren.url, damaged.url))
    table: Any = defect_table(replace(report, verdicts=[verdict]))
    lost = f"no sample usable: {verdict.title}"
    after = "samples after damage at which readers stop"
    cells = {
        row["name"]: dict(zip(table["names"], (count for count, _ in row["cells"]), strict=True))
        for row in table["rows"]
    }
    assert cells == {"0001.tar": {lost: 1, after: 0}, "0002.tar": {lost: 1, after: 4}}
    assert table["more"] == ""


def test_the_verdict_comes_first():
    page = Page(fragment(factories.stalled()))
    assert page.tags[:4] == ["div", "style", "section", "h2"]
    assert "10,000" in "".join(page.texts)


def test_markup_in_data_is_text():
    texts = "".join(Page(render(factories.nasty(), "html")).texts)
    assert "<script>alert(1)</script>" in texts
    assert "\x1b" not in texts


def test_long_lists_are_cut():
    report = factories.healthy(300)
    report = replace(
        report,
        findings=[
            factories.finding(shard=f"{number}.tar", message=f"trouble {number}")
            for number in range(300)
        ],
    )
    page = fragment(report)
    assert "and 250 more" in page
    assert len(page) < 60_000
