"""The reasons of a verdict add up to the samples that do not reach a batch."""

import pytest

from tests.printed.sets import JSON, PICTURE, SETS, write
from tests.validate.rules.build import pairs, samples
from wdsflow import check

CAPTION = b"a dog"


def numbered(*prefixes):
    return [
        (f"{prefix}.{n}.{end}", data)
        for prefix in prefixes
        for n in range(50)
        for end, data in PAIR
    ]


PAIR = (("jpg", PICTURE), ("txt", CAPTION))
MIXED = {
    "dots that merge samples": [[*numbered("img"), *pairs(20)]],
    "dots that merge samples into two": [
        [*numbered("a", "b"), *samples(3, start=80, jpg=PICTURE), *pairs(20)]
    ],
    "members apart, and some samples without a caption": [
        [
            *sorted(pairs(30), key=lambda member: member[0][-3:]),
            *samples(9, start=60, jpg=PICTURE),
            *pairs(30, start=80),
        ]
    ],
    "files of macOS next to samples without a caption": [
        [
            *(pairs(9)),
            *(("__MACOSX/" + name, b"\0\5\x16\7") for name, _ in pairs(4)),
            *samples(5, start=60, jpg=PICTURE),
        ]
    ],
    "one sample in two shards": [
        [*pairs(6), ("900.jpg", PICTURE)],
        [("900.txt", CAPTION), *pairs(4, start=20)],
    ],
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("reader", ["open-clip-3.3", "timm"])
@pytest.mark.parametrize("name", [*MIXED, *SETS])
def test_the_reasons_add_up_to_the_samples_that_are_lost(tmp_path, name, reader):
    write(tmp_path, {**SETS, **MIXED}[name])
    (verdict,) = check(tmp_path / "s", [reader], jobs=1).verdicts
    ends_early = verdict.outcome == "crashes"  # at the first exception
    assert (
        ends_early
        or sum(reason.count for reason in verdict.reasons) == verdict.samples - verdict.usable
    ), verdict.reasons


@pytest.mark.parametrize(
    "name",
    ["members apart, and some samples without a caption", "dots that merge samples into two"],
)
def test_the_findings_add_up_to_the_samples_that_are_lost(tmp_path, name):
    write(tmp_path, MIXED[name])
    report = check(tmp_path / "s", ["open-clip-3.3"], jobs=1)
    (verdict,) = report.verdicts
    lost = sum(finding.lost.get(verdict.reader, 0) for finding in report.findings)
    assert lost == verdict.samples - verdict.usable > 0


@pytest.mark.deep
def test_each_of_many_samples_that_dots_merge_counts(tmp_path):
    write(tmp_path, MIXED["dots that merge samples"])
    report = check(tmp_path / "s", ["open-clip-3.3"], jobs=1)
    (reason,) = report.verdicts[0].reasons
    assert (reason.count, report.verdicts[0].usable) == (50, 20)
    (finding,) = (each for each in report.findings if each.code == "W010")
    assert "OpenCLIP 3.3.0 drops 50 samples" in finding.message


@pytest.mark.deep
def test_names_with_dots_are_reported_once_and_each_sample_they_merge_counts(tmp_path):
    write(
        tmp_path,
        [
            [(f"photo.v{shard}{n}.{end}", data) for n in range(9) for end, data in PAIR]
            for shard in range(3)
        ],
    )
    report = check(tmp_path / "s", ["open-clip-3.3"], level="headers", jobs=1)
    assert {each.code for each in report.findings} == {"P301", "W010"}
    alone = [(f"photo.v{n}.jpg", PICTURE) for n in range(12)]
    (tmp_path / "alone").mkdir()
    write(tmp_path / "alone", [[*alone, *pairs(10), *samples(3, start=80, jpg=PICTURE)]])
    report = check(tmp_path / "alone" / "s", ["open-clip-3.3"], jobs=1)
    found = [each for each in report.findings if each.code == "F102"]
    (verdict,) = report.verdicts
    assert sum(each.count for each in found) == verdict.samples - verdict.usable == 15


@pytest.mark.deep
def test_a_sample_in_two_shards_is_reported_although_its_name_has_a_dot(tmp_path):
    write(
        tmp_path, [[*pairs(6), ("a.v1.jpg", PICTURE)], [("a.v1.txt", CAPTION), *pairs(4, start=20)]]
    )
    assert "W009" in {
        each.code for each in check(tmp_path / "s", ["open-clip-3.3"], jobs=1).findings
    }


def test_members_that_are_no_samples_are_not_counted_as_samples(tmp_path):
    write(tmp_path, MIXED["files of macOS next to samples without a caption"])
    text = str(check(tmp_path / "s", ["open-clip-3.3"], jobs=1))
    assert (
        "5 of 14 samples: OpenCLIP 3.3.0 makes 9 incomplete samples of their members and of junk files"
        in text
    )
    assert "-> 18 samples in the reader's grouping ->" in text


def test_samples_that_are_whole_have_one_number(tmp_path):
    write(tmp_path, [samples(9, jpg=PICTURE, txt=CAPTION, json=JSON)])
    text = str(check(tmp_path / "s", ["open-clip-3.3"], jobs=1))
    assert "-> 9 samples -> 9 image + caption" in text
