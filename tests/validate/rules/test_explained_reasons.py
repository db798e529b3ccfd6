"""Each reason for which a reader loses samples or raises has rules that explain it.

Findings of other rules do not count its losses.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.validate.rules.build import pairs, tar
from tests.validate.rules.cases import CASES
from tests.validate.rules.faulty_samples import VALID, faulty_samples
from wdsflow.readers import READERS, OpenClip4, Options, Reader, scan_options
from wdsflow.scan.evidence import Evidence
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.stages.caption_sources import parse_captions
from wdsflow.validate import Verdict
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.feed_verdict import feed_reader
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge
from wdsflow.validate.verdicts.wording import CRASHES, LOSSES

_LACKING = {
    *("F101", "F102", "F103", "F105", "F110"),
    # Members of a sample are apart, or have other names than they should.
    *("W006", "W007", "W009", "W010", "W012", "W013", "W021", "W022", "W029", "W030", "F128"),
    # The end of a shard is missing.
    *("W001", "W018"),
}
_IMAGES = {"I201", "I202", "I210", "I216", "I217"}
_TOO_LARGE = {"I203", "I212"}
_DAMAGED = {"W001", "W002", "W003", "W004", "W005", "W017", "W018", "W020"}
EXPLAINED_BY: dict[str, set[str]] = {
    "no-image": _LACKING,
    "no-caption": _LACKING | {"F108"},
    "no-image-or-caption": _LACKING,
    "no-label": _LACKING,
    "no-image-or-label": _LACKING,
    "empty-caption": {"F112"},
    "bad-caption": {"F107", "F109"},
    "not-text": {"F109"},
    "bad-json": {"F107"},
    "bad-label": {"F121"},
    "bad-image": _IMAGES,
    "too-large": _TOO_LARGE,
    # Of another image than the one that trains, of a second text, of files of macOS.
    "bad-field": {"F107", "F109", "F121", "F122", "W012", "W022"} | _IMAGES | _TOO_LARGE,
    "duplicate-field": {"W007", "W021", "F128"},
    "marked-bad": {"F127"},
    # Reasons of shards.
    "unopened": {"W004", *_DAMAGED},
    "unreached": _DAMAGED,
    # What is joined may lack a field as well.
    "joined": {"W009", "W010", "W021", "F101", "F102"},
    "pieces": _LACKING,
    # Exceptions.
    "unreadable-shard": {"W004", *_DAMAGED},
    "truncated-shard": _DAMAGED,
    "no-samples": {"F127", *_DAMAGED},
    "no-index": {"W006", "W008", "W012", "W016", *_DAMAGED},
    "reserved-field": {"F128"},
    "gives-up": _LACKING | _IMAGES | _TOO_LARGE | {"F107", "F109", "F121", "F122"},
    "schema": {"F110", *_LACKING},
    "types": {"F126"},
    "table": {"F126"},
    "not-utf8-name": {"W016"},
    "key-again": {"W006", "W012"},
    "unsafe-field": {"F111"},
    # A space in a flag: no data are at fault.
    "spaced-key": set(),
}


def readers() -> Iterator[tuple[str, Reader]]:
    """Yield all readers, and those with options in the ways in which they differ."""
    for name, reader in READERS.items():
        yield name, reader(Options())
    yield "open-clip-4 json", OpenClip4(Options(json_text_key="caption"))
    keys = Options(text_key="caption;txt", image_key="png;jpg;gif;seg.png")
    yield "open-clip-4 keys", OpenClip4(keys)
    for captions in ("txt", "json:caption", "txt|json:caption", "json:caption|txt", "caption|txt"):
        yield f"feed {captions}", feed_reader(None, parse_captions(captions))


ALL_READERS = dict(readers())


def unexplained(reader: Reader, paths: list[str]) -> tuple[Verdict, list[str]]:
    """Return the verdict on shards, and what is wrong with the findings that should explain it."""
    urls = [single_shard(path) for path in paths]
    options = scan_options("full", [reader], urls)
    evidence = Evidence("full", [scan_shard(url, options) for url in urls])
    verdict = judge(evidence, reader)
    context = Context(evidence, [reader], [verdict], urls=tuple(paths))
    findings = run_rules(context)[0]
    counted = {finding.code for finding in findings if finding.lost}
    crashes = verdict.outcome == "crashes"
    # Of a reader that ends with an exception no losses are counted.
    explaining = counted
    if crashes:
        explaining = {finding.code for finding in findings if reader.name in finding.readers}
    allowed: set[str] = set()
    wrong = []
    for reason in verdict.reasons:
        allowed |= EXPLAINED_BY[reason.slug]
        if (reason.count or crashes) and explaining.isdisjoint(EXPLAINED_BY[reason.slug]):
            wrong.append(f"{reason.slug} is explained by none of {sorted(explaining)}")
    if counted - allowed:
        wrong.append(f"{sorted(counted - allowed)} count losses for {sorted(verdict.lost)}")
    lost = sum(finding.lost.get(reader.name, 0) for finding in findings)
    if not crashes and lost != verdict.samples - verdict.usable:
        wrong.append(f"findings count {lost} of {verdict.samples - verdict.usable} losses")
    return verdict, wrong


@pytest.mark.sample(24)
@pytest.mark.parametrize("in_all", [False, True], ids=["in one sample", "in all samples"])
@pytest.mark.parametrize("fault", faulty_samples())
def test_a_loss_is_explained_by_its_fault_and_by_nothing_else(
    fault: str, in_all: bool, tmp_path: Path
) -> None:
    faulty = faulty_samples()[fault]
    members = []
    for number in range(20):
        fields = faulty if in_all or number == 10 else VALID.items()
        members += [(f"{number:03d}.{field}", data) for field, data in fields]
    path = tmp_path / "0.tar"
    path.write_bytes(tar(members))

    for name, reader in ALL_READERS.items():
        verdict, wrong = unexplained(reader, [str(path)])
        assert not wrong, f"{name}: {wrong}, {verdict.reasons}"


@pytest.mark.sample(24)
@pytest.mark.parametrize("code", CASES)
def test_the_losses_in_the_shards_of_each_rule_are_explained(code: str, tmp_path: Path) -> None:
    case = CASES[code]
    paths = [str(tmp_path / name) for name in case.write(tmp_path)]
    for name, reader in READERS.items():
        verdict, wrong = unexplained(reader(case.options), paths)
        assert not wrong, f"{name}: {wrong}, {verdict.reasons}"


def test_every_reason_has_rules_that_explain_it(tmp_path: Path) -> None:
    of_shards = {"unopened", "unreached", "joined", "pieces"}
    assert set(EXPLAINED_BY) == LOSSES.keys() | CRASHES.keys() | of_shards

    # The test itself fails where a reason has no rule.
    path = tmp_path / "0.tar"
    path.write_bytes(tar(pairs(3, __bad__=b"1")))
    EXPLAINED_BY["marked-bad"].remove("F127")
    try:
        _, wrong = unexplained(ALL_READERS["open-clip-3.3"], [str(path)])
    finally:
        EXPLAINED_BY["marked-bad"].add("F127")
    assert len(wrong) == 2
