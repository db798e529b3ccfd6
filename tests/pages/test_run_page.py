"""The page of a run, in a real browser: what it counts is what a filter keeps."""

import html
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.commands import pasted
from tests.filtering.shards import entries, picture
from tests.pages.browser import Opened
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.page.run_facts import read_run, sampled_rows
from wdsflow.filtering.page.run_page import run_page

# Tests of pages share a browser, so they run in one process.
pytestmark = pytest.mark.xdist_group("pages")

HERE = RunOptions(jobs=0)
SCORES = ("blur", "caption_words", "min_side", "aspect_ratio", "duplicate", "format", "caption")
HOSTILE = '</script><script>alert(1)</script><img src="http://example.invalid/x" onerror="alert(2)">{{ 7 * 7 }}\x1b[31m'


def shards(folder: Path) -> str:
    """Write shards with valid samples and faulty ones.

    The faults: a missing or damaged image, several images, hostile texts.
    """
    folder.mkdir()
    write_tar(
        folder / "a.tar",
        [*entries(0, 40), ("bad.jpg", b"no picture"), ("bad.txt", b"some words here")],
    )
    more = [
        ("x.jpg", picture(90, 90, 3)),
        ("x.0.jpg", picture(300, 200, 5)),
        ("x.txt", HOSTILE.encode()),
    ]
    write_tar(folder / "b.tar", [*entries(1, 30), *more, ("none.txt", b"words and no image"), (f"{HOSTILE[9:30].replace('/', '')}.jpg", picture(80, 80)), (f"{HOSTILE[9:30].replace('/', '')}.txt", b"a")])  # fmt: skip
    return str(folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    measure_shards(shards(folder / "in"), folder / "out", Recipe(scores=SCORES), HERE)
    return folder


@pytest.fixture(scope="module")
def page(scored: Path) -> Path:
    path = scored / "report.html"
    path.write_text(run_page(scored / "out"), encoding="utf-8")
    return path


def test_of_many_samples_the_same_ones_are_drawn_each_time(scored: Path):
    facts = read_run(scored / "out")
    everything = dict.fromkeys(
        (record.name, row.number, row.key)
        for record, samples in sampled_rows(facts)
        for row in samples.rows
    )
    drawn = [
        [
            (record.name, row.number, row.key)
            for record, samples in sampled_rows(facts, 20)
            for row in samples.rows
        ]
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == len(set(drawn[0])) == 20
    assert drawn[0] == [row for row in everything if row in set(drawn[0])]
    assert {name for name, _, _ in drawn[0]} == {record.name for record in facts.records}


def move(opened: Opened, number: int, which: str, position: int) -> None:
    opened.page.eval_on_selector(
        f'[data-score="{number}"] .{which}',
        "(slider, position) => { slider.value = position; slider.dispatchEvent(new Event('input')); }",
        position,
    )


def state(opened: Opened) -> tuple[int, str]:
    """Return how many samples the page says are kept, and the predicate of its command."""
    count = int(opened.page.get_attribute("#kept", "data-count") or "")
    command = opened.page.text_content("#command") or ""
    return count, command.partition(" --where ")[2].strip().strip("'")


def kept(folder: Path, where: str, unknown: Any = "quarantine") -> int:
    report = filter_shards(str(folder / "in"), folder / "tried", Recipe(where=where, unknown=unknown), RunOptions(jobs=0, dry_run=True), ledger=folder / "out")  # fmt: skip
    return report.total("kept")


def compare(opened: Opened, folder: Path, times: int, seed: int) -> None:
    draw = random.Random(seed)
    sliders = opened.page.locator("[data-score]").count()
    for _ in range(times):
        opened.page.click("#reset")
        for number in draw.sample(range(sliders), draw.randint(1, min(3, sliders))):
            which = draw.choice(("low", "high"))
            last = int(opened.page.get_attribute(f'[data-score="{number}"] .{which}', "max") or "")
            move(opened, number, which, draw.randrange(1, last) if last > 1 else 0)
        boxes = opened.page.locator(".choice input")
        for box in draw.sample(range(boxes.count()), min(boxes.count(), draw.randint(0, 2))):
            boxes.nth(box).check()
        count, where = state(opened)
        assert where, "a slider was moved"
        assert count == kept(folder, where), where


def test_the_count_is_what_cut_keeps_wherever_the_sliders_are(
    chromium: Any, scored: Path, page: Path
) -> None:
    with Opened(chromium, page) as opened:
        compare(opened, scored, 8, seed=0)
        assert opened.faults == []


# What is wider than the window, and the texts that are drawn on the lower axis of each histogram
_TOO_WIDE = """() => [...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .map((each) => each.outerHTML.slice(0, 80))"""
_RECORD_LABELS = """() => {
    window.labels = {};
    let number = 0;
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        this.canvas.number ||= ++number;
        if (this.textAlign === "center") (window.labels[this.canvas.number] ||= []).push(text);
        return draw.call(this, text, x, y, ...rest);
    };
}"""


def test_on_a_narrow_window_nothing_is_cut_off_and_numbers_are_short(
    chromium: Any, tmp_path: Path
) -> None:
    draw = random.Random(9)
    members = []
    for number in range(300):
        near, far = 0.281234567 + draw.random() * 1e-6, draw.random() * 1e12
        tree = json.dumps(
            {"sim": draw.random() / 3, "near": near, "far": far, "few": (1 / 3, 2 / 3)[number % 2]}
        )
        members += [(f"{number}.jpg", picture(40, 40)), (f"{number}.json", tree.encode())]
    write_tar(tmp_path / "in.tar", members)
    scores = tuple(f"json_number('{name}')" for name in ("sim", "near", "far", "few"))
    recipe = Recipe(where="json_number('sim') < 0.3123456789012345", scores=scores)
    filter_shards(str(tmp_path / "in.tar"), tmp_path / "out", recipe, HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path, viewport={"width": 1000, "height": 900}) as opened:
        opened.page.evaluate(_RECORD_LABELS)
        opened.page.set_viewport_size({"width": 400, "height": 900})
        opened.page.wait_for_function(
            "() => document.querySelector('.plot canvas').getBoundingClientRect().width <= 370"
        )
        assert opened.page.evaluate(_TOO_WIDE) == []
        assert opened.page.evaluate("document.querySelector('#command').clientWidth") > 300
        labels: list[list[str]] = opened.page.evaluate("Object.values(window.labels)")
        assert len(labels) >= 4
        for shown in labels:
            assert len(set(shown)) == len(shown), shown
            assert all(len(label) <= 11 for label in shown), shown
        for number in range(4):
            for which in ("low", "high"):
                last = int(
                    opened.page.get_attribute(f'[data-score="{number}"] .{which}', "max") or ""
                )
                for position in (1, last // 2, last - 1):
                    move(opened, number, which, position)
                    text = opened.page.text_content(f'[data-score="{number}"] .{which}-text') or ""
                    assert len(text) <= 14, text
        assert opened.faults == []


def near(opened: Opened, number: int) -> dict[str, list[tuple[str, str]]]:
    """Return the samples that the page shows for a score, by heading.

    Each is the value, and the effect of another term.
    """
    found: dict[str, list[tuple[str, str]]] = opened.page.eval_on_selector(
        f'[data-score="{number}"] .near',
        """place => Object.fromEntries([...place.querySelectorAll('ul')].map((list) => [list.previousElementSibling.textContent,
        [...list.children].map((item) => [item.querySelector('b').textContent, item.querySelector('.other').textContent])]))""",
    )
    return {title: [(value, other) for value, other in listed] for title, listed in found.items()}


def test_the_samples_next_to_the_runs_cut_and_in_the_tails_are_shown(
    chromium: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    images = {side: picture(side, 50) for side in range(60, 260)}
    members = [(f"{side}.{name}", data) for side, image in images.items() for name, data in (("jpg", image), ("txt", b"word " * (side % 2 + 1)))]  # fmt: skip
    write_tar(tmp_path / "in" / "a.tar", members)
    recipe = Recipe(
        where="width > 103 and caption_words >= 2", scores=("width", "bytes", "caption_words")
    )
    filter_shards(str(tmp_path / "in"), tmp_path / "out", recipe, HERE)
    sizes = sorted(map(len, images.values()))
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    other = {0: "dropped by another term", 1: ""}  # of even widths the captions have one word
    with Opened(chromium, path) as opened:
        headings = [opened.page.text_content(f"#score-{number}") for number in range(3)]
        shown = near(opened, headings.index("width"))
        assert shown == {
            "just above the cut: kept by this term": [
                (str(width), other[width % 2]) for width in range(104, 110)
            ],
            "just below the cut: dropped": [
                (str(width), other[width % 2]) for width in range(98, 104)
            ],
        }
        tails = near(opened, headings.index("bytes"))
        assert [value for value, _ in tails["lowest"]] == [f"{size:,}" for size in sizes[:6]]
        assert [value for value, _ in tails["highest"]] == [f"{size:,}" for size in sizes[:-7:-1]]
        position = (
            int(
                opened.page.get_attribute(f'[data-score="{headings.index("width")}"] .low', "max")
                or ""
            )
            - 30
        )
        move(opened, headings.index("width"), "low", position)
        assert any(
            "nearer samples are not shown: dropped" in title
            for title in near(opened, headings.index("width"))
        )
        assert opened.faults == []


@pytest.mark.deep
def test_many_positions_of_the_sliders(chromium: Any, scored: Path, page: Path) -> None:
    with Opened(chromium, page) as opened:
        compare(opened, scored, 200, seed=random.randrange(1 << 32))


def test_texts_from_the_data_run_nothing_and_nothing_is_loaded(chromium: Any, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text
    with Opened(chromium, page) as opened:
        opened.page.wait_for_timeout(200)
        assert opened.page.locator(".gallery img").count() > 5
        assert opened.faults == []
        assert opened.page.evaluate("document.scripts.length") == 4  # ours, and the data


@pytest.mark.deep
def test_commands_are_copied_and_sliders_work_by_keyboard(chromium: Any, page: Path) -> None:
    with Opened(chromium, page, permissions=["clipboard-read", "clipboard-write"]) as opened:
        slider = opened.page.locator('[data-score="1"] .low')
        slider.focus()
        opened.page.keyboard.press("ArrowRight")
        opened.page.keyboard.press("ArrowRight")
        assert "caption_words >= 2" in (opened.page.text_content("#command") or "")
        opened.page.click("#copy-where")
        opened.page.wait_for_function(
            "document.querySelector('#copy-where').textContent === 'Copied'"
        )
        assert opened.page.evaluate("navigator.clipboard.readText()") == "caption_words >= 2"
        done = pasted(opened.page.text_content("#command") or "")
        assert done.status == 0
        assert f"{state(opened)[0]:,}  kept" in done.out


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_use_it(chromium: Any, page: Path, scheme: str) -> None:
    with Opened(chromium, page, color_scheme=scheme) as opened:
        move(opened, 0, "low", 20)
        assert opened.violations() == []


def test_it_begins_with_the_predicate_of_the_run_and_says_what_was_not_computed(
    chromium: Any, tmp_path: Path
) -> None:
    where = 'aspect_ratio <= 0.95 and 100 < min_side < 300 and not has("png") and blur > 0'
    report = filter_shards(shards(tmp_path / "in"), tmp_path / "out", Recipe(where=where), HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        count, shown = state(opened)
        assert count == report.total("kept") == kept(tmp_path, shown) > 0
        assert sorted(shown.split(" and ")) == sorted(
            [
                "aspect_ratio <= 0.95",
                "min_side > 100",
                "min_side < 300",
                'not has(field="png")',
                "blur > 0",
            ]
        )
        assert opened.page.is_hidden("#pending")
        number = next(
            number
            for number in range(3)
            if "min_side" in (opened.page.text_content(f"#score-{number}") or "")
        )
        move(opened, number, "low", 0)
        assert opened.page.is_visible("#pending")
        assert f"wdsflow measure {tmp_path}/in/" in (opened.page.text_content("#pending") or "")


@pytest.mark.parametrize(
    ("where", "ticked"),
    [
        ("min_side > 100 and not duplicate", {"False"}),
        ("duplicate != True and min_side > 100", {"False"}),
        # Of a value that no sample has too.
        (
            "format in ('jpeg', 'bmp') and min_side > 100",
            {"jpeg", "bmp"},
        ),
    ],
)
def test_a_term_about_values_is_the_boxes_that_are_ticked(
    where: str, ticked: set[str], chromium: Any, tmp_path: Path
) -> None:
    report = filter_shards(shards(tmp_path / "in"), tmp_path / "out", Recipe(where=where), HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        assert opened.page.locator("#rest").count() == 0
        boxes = opened.page.locator(".choice label")
        shown = {
            boxes.nth(at).locator("span").first.text_content(): boxes.nth(at)
            for at in range(boxes.count())
        }
        for again in range(2):
            assert {
                text for text, box in shown.items() if box.locator("input").is_checked()
            } == ticked, again
            count, predicate = state(opened)
            assert count == report.total("kept") == kept(tmp_path, predicate) > 0
            for text in ticked:
                shown[text].locator("input").uncheck()
            assert state(opened)[1] == "min_side > 100"
            opened.page.click("#reset")


def test_what_is_unknown_is_kept_where_the_run_keeps_it(chromium: Any, tmp_path: Path) -> None:
    recipe = Recipe(where="blur > 100", scores=SCORES, unknown="keep")
    filter_shards(shards(tmp_path / "in"), tmp_path / "out", recipe, HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        move(opened, 1, "low", 3)
        count, shown = state(opened)
        assert count == kept(tmp_path, shown, "keep") > kept(tmp_path, shown)
        assert " --unknown keep " in (opened.page.text_content("#command") or "")


def test_a_term_that_compares_what_others_keep_is_a_bound_where_these_are_changed(
    chromium: Any, tmp_path: Path
) -> None:
    source = Path(shards(tmp_path / "in"))
    write_tar(source / "c.tar", [(f"{key}.{field}", data) for key in "xyz" for field, data in (("jpg", picture(250, 200)), ("txt", b"a b c d"))])  # fmt: skip
    where = 'min_side > 100 and not duplicate(among="kept")'
    report = filter_shards(str(source), tmp_path / "out", Recipe(where=where), HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        count, shown = state(opened)
        assert count == report.total("kept") == kept(tmp_path, shown) > 0
        assert (opened.page.text_content("#kept") or "").startswith(f"{count:,} kept")
        positions = iter(range(10))
        while "min_side >= 200 " not in shown:
            move(opened, 0, "low", next(positions))
            count, shown = state(opened)
        assert count > kept(tmp_path, shown) > 0
        assert (opened.page.text_content("#kept") or "").startswith("at most ")
        opened.page.uncheck("#compared")
        count, shown = state(opened)
        assert count == kept(tmp_path, shown)


def test_the_count_is_exact_for_keys_that_come_twice_and_numbers_without_end(
    chromium: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    numbers = ["1e308", "-1e308", "Infinity", "-Infinity", "NaN", "1", "2", '"x"', "3"]
    for shard in range(2):
        members = [
            (f"{'again' if place % 4 == shard else place}.{field}", data)
            for place in range(36)
            for field, data in (
                ("json", f'{{"n": {numbers[place * 7 % 9]}}}'.encode()),
                ("txt", b"word " * (place % 5)),
            )
        ]
        write_tar(tmp_path / "in" / f"{shard}.tar", members)
    scores = Recipe(scores=("json_number('n')", "caption_words"))
    measure_shards(str(tmp_path / "in"), tmp_path / "out", scores, HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        compare(opened, tmp_path, 12, seed=1)
        opened.page.click("#reset")
        move(opened, 1, "low", 4)
        assert "quarantined: same-key" in (opened.page.text_content("#share") or "")
        assert opened.faults == []


def test_the_command_that_computes_missing_scores_reads_the_captions_of_the_run(
    chromium: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    members: list[tuple[str, bytes]] = []
    for place in range(30):
        size = 40 if place % 2 else 80
        members.append((f"{place}.jpg", picture(size, size, place)))
        members.append(
            (f"{place}.json", f'{{"a": "{"word " * (place % 5)}", "n": {place}}}'.encode())
        )
    write_tar(tmp_path / "in" / "it's.tar", members)
    recipe = Recipe(where="width > 60 and caption_words > 2", caption="json:a")
    filter_shards(str(tmp_path / "in"), tmp_path / "out", recipe, HERE)
    path = tmp_path / "report.html"
    path.write_text(run_page(tmp_path / "out"), encoding="utf-8")
    with Opened(chromium, path) as opened:
        move(opened, 0, "low", 0)
        assert (opened.page.text_content("#kept") or "").startswith("at least ")
        command = f"wdsflow measure {(opened.page.text_content('#pending') or '').partition('wdsflow measure ')[2]}"
    assert pasted(f"{command} --jobs 0").status == 0
    assert '"captions": "json:a"' in (tmp_path / "out-scores/.wdsflow/run.json").read_text()


def test_its_commands_allow_pipes_where_the_run_read_some(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", entries(0, 3))
    url = f"pipe:cat {tmp_path}/a.tar"
    options = replace(HERE, allow_pipe=True)
    measure_shards(url, tmp_path / "out", Recipe(scores=("caption_words",)), options)
    measure_shards(str(tmp_path), tmp_path / "plain", Recipe(scores=("caption_words",)), HERE)

    assert f"wdsflow filter '{url}' --allow-pipe -o " in html.unescape(run_page(tmp_path / "out"))
    assert "--allow-pipe" not in run_page(tmp_path / "plain")
