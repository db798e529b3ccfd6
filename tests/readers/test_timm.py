"""timm's reader: what it takes, its hang without labels, and what helps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.readers.shapes import outcomes, shard, verdict
from tests.validate.rules.build import Members, jpeg, pairs, samples, tar
from wdsflow import check
from wdsflow.readers import Options, Timm
from wdsflow.shards.tar.members import Stop

PASSES = 20  # over a set without labels: enough to see that there is no end


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg cls", "usable"),
        ("WEBP CLS", "usable"),
        ("jpg cls json:bad txt:not-utf8 npy:bad", "usable"),
        ("jpg txt", "no-label"),
        ("cls", "no-image"),
        ("jpeg cls", "no-image"),
        ("txt", "no-image-or-label"),
        ("jpg cls:bad", "bad-label cls"),
        ("jpg:bad cls", "bad-image jpg"),
        ("jpg:bomb cls", "too-large jpg"),
        ("jpg:bad cls:bad", "bad-label cls"),
        ("jpg cls cls:bad", "usable"),
        ("jpg:bad JPG cls", "bad-image jpg"),
        ("__key__ jpg cls __url__", "usable"),
        ("__key__", "no-image-or-label"),
        ("jpg cls __bad__", "marked-bad __bad__"),
        ("jpg cls __bad__:empty", "usable"),
    ],
)
def test_timm_takes_an_image_and_a_class_number(members: str, expected: str) -> None:
    assert outcomes(Timm(), members) == [expected]


def test_timm_drops_what_others_raise_for() -> None:
    assert verdict(
        Timm(), shard(["jpg cls", "jpg cls"], Stop("error")), shard([], Stop("unreadable"))
    ) == (
        *("trains", 2),
        [],
    )


def test_each_worker_of_each_rank_gets_other_shards() -> None:
    shards = [shard(["jpg cls"], url=f"{number}.tar") for number in range(10)]
    shares = [
        [each.url for each in share]
        for share in Timm(Options(workers=2, world_size=2)).order(shards)
    ]

    assert sorted(url for share in shares for url in share) == sorted(each.url for each in shards)
    assert list(map(len, shares)) == [3, 3, 2, 2]
    assert shares != [[each.url for each in shards[worker::4]] for worker in range(4)]  # shuffled


@pytest.mark.webdataset
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_timm_hangs_without_labels_as_predicted(tmp_path: Path) -> None:
    data = pytest.importorskip("timm.data")
    if pytest.importorskip("webdataset").__version__ >= "0.2.95":
        pytest.skip("timm needs webdataset <= 0.2.86")
    path = tmp_path / "0.tar"

    def batches(members: Members) -> tuple[int, int]:
        """Return how many samples an epoch of 10 yields, and its passes over the shard."""
        path.write_bytes(tar(members))
        reader = data.create_dataset("wds/", root="/", split=f"{path}|10", is_training=True).reader
        reader._lazy_init()
        passes: list[int] = []

        def count_passes(source: Iterator[Any]) -> Iterator[Any]:
            passes.append(1)
            if len(passes) > PASSES:
                raise KeyboardInterrupt  # no handler takes it
            yield from source

        reader.ds.pipeline.insert(1, count_passes)
        came = 0
        try:
            for _image, label in reader:
                assert label == 7
                came += 1
        except KeyboardInterrupt:
            pass
        return came, len(passes)

    assert batches(samples(4, jpg=jpeg(), cls=b"7")) == (10, 3)
    assert check(path, ["timm"], level="full").verdicts[0].outcome == "trains"

    assert batches(pairs(4)) == (0, PASSES + 1)
    found = check(path, ["timm"], level="full").verdicts[0]
    assert (found.outcome, found.usable, found.lost, found.exact) == (
        "stalls",
        0,
        {"no-label": 4},
        True,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("fields", "rename"),
    [({"jpg": jpeg(), "label": b"7"}, "label=cls"), ({"jpeg": jpeg(), "cls": b"7"}, "jpeg=jpg")],
)
def test_the_advice_renames_the_field_and_keeps_its_promise(
    fields: dict[str, bytes], rename: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wdsflow import repair_shards

    monkeypatch.chdir(tmp_path)
    (tmp_path / "0.tar").write_bytes(tar(samples(4, **fields)))
    report = check("0.tar", ["timm"], level="full")
    (advice,) = report.advice

    assert report.verdicts[0].outcome == "stalls"
    assert advice.command == f"wdsflow repair 0.tar -o repaired --rename {rename}"
    assert advice.usable == 4
    repair_shards(["0.tar"], "repaired", rename=dict([rename.split("=")]))
    assert check("repaired/0.tar", ["timm"], level="full").verdicts[0].usable == 4


def test_no_advice_leaves_out_samples_that_timm_can_use(tmp_path: Path) -> None:
    members = [
        *samples(4, jpg=jpeg(), cls=b"7"),
        *samples(2, 10, jpg=jpeg()),
        *samples(2, 20, jpg=jpeg(), cls=b"x"),
    ]
    (tmp_path / "0.tar").write_bytes(tar(members))
    report = check(tmp_path / "0.tar", ["timm", "open-clip-3.3"], level="full")

    assert [finding.code for finding in report.findings if "timm" in finding.readers] == [
        "F102",
        "F121",
    ]
    repairs = [finding.repair for finding in report.findings if "timm" in finding.readers]
    assert repairs == [None, None]


def test_labels_in_json_are_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "0.tar").write_bytes(
        tar(samples(4, jpg=jpeg(), json=b'{"label": 3, "caption": "a cat"}'))
    )
    (finding,) = (
        each for each in check(tmp_path / "0.tar", ["timm"]).findings if each.code == "F101"
    )

    assert "a class number in json is read with target_key=NAME" in finding.message
    assert finding.repair is None
