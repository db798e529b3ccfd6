"""The text of the rules about training commands, word by word.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` rewrites the golden files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden_file import check_file
from tests.validate.openclip import evidence_of, plain
from tests.validate.rules.build import shown
from wdsflow.readers import READERS
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import FolderCounts, Sidecars
from wdsflow.readers.sidecar_facts import SidecarFact
from wdsflow.scan.evidence import Evidence, Gap, ShardEvidence
from wdsflow.shards.shard import Shard
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.forecast.forecast import forecast
from wdsflow.validate.forecast.forecast_result import Forecast
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge

GOLDEN = Path(__file__).parent / "golden"
Needs = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A training command over shards of so many usable samples, and what lies around them."""

    usable: tuple[int, ...] = (100, 100, 100, 100)
    others: int = 0  # samples without a caption in each
    arguments: dict[str, Any] = field(default_factory=dict)
    given: bool = True  # False: no training command
    readers: tuple[str, ...] = ("open-clip-3.3",)
    sidecars: Sidecars = field(default_factory=Sidecars)
    gaps: tuple[Gap, ...] = ()
    urls: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    # Of forecast.Resources, where the truth differs between machines.
    machine: Needs = field(default_factory=dict)
    adapt: Callable[[ShardEvidence], object] = lambda shard: None
    validation: Evidence | None = None

    def context(self) -> Context:
        shards = [
            evidence_of(f"s/{number}.tar", plain(some, self.others, f"{number}-"))
            for number, some in enumerate(self.usable)
        ]
        for shard in shards:
            self.adapt(shard)
        evidence = Evidence("full", shards, list(self.gaps))
        default = {
            "train_num_samples": sum(self.usable),
            "workers": 2,
            "batch_size": 4,
            "warmup": 0,
            "epochs": 4,
        }
        command = Arguments(**(default | self.arguments))
        classes = [READERS[name] for name in self.readers]
        readers = [reader(command.options(reader)) for reader in classes]
        verdicts = [judge(evidence, reader) for reader in readers]
        urls = self.urls or tuple(shard.url for shard in shards)
        context = Context(
            evidence,
            readers,
            verdicts,
            urls=urls,
            sidecars=self.sidecars,
            environment=self.environment,
        )
        if self.given:
            found = tuple(self.forecast(evidence, reader, command) for reader in readers)
            return replace(context, arguments=command, forecasts=found)
        return context

    def forecast(self, evidence: Evidence, reader: Any, command: Arguments) -> Forecast:
        found = forecast(evidence, reader, command, self.sidecars, validation=self.validation)
        if found.resources is None:
            return found
        needs = replace(
            found.resources, **({"available_bytes": 10**12, "shm_total": 10**12} | self.machine)
        )
        return replace(found, resources=needs)


def heavy(shard: ShardEvidence) -> None:
    shard.member_bytes = shard.samples * 2_000_000
    shard.images.count, shard.images.pixels = shard.samples, shard.samples * 12_000_000


def broken(name: str, problem: Any, detail: str, folder: FolderCounts | None = None) -> Sidecars:
    return Sidecars({"s": folder or FolderCounts()}, [SidecarFact(f"s/{name}", problem, detail)])


def in_a_bucket(shard: ShardEvidence) -> None:
    shard.url = Shard.url(f"s3://bucket/{shard.url}")


EMPTY = Evidence("full", [evidence_of("v/0.tar", plain(0, others=30))])

CASES: dict[str, Command] = {
    "P301": Command((0, 0), others=50, readers=("open-clip-3.3", "datasets"), given=False),
    "P302": Command((100, 3, 100, 2), arguments={"seed": 1, "workers": 4}),
    "P303": Command(
        (100, 100, 100),
        arguments={"workers": 2, "world_size": 2},
        readers=("open-clip-3.3", "open-clip-4"),
    ),
    "P304": Command((40, 100), arguments={"seed": 1}),
    "P305": Command(
        arguments={"train_num_samples": None},
        sidecars=broken(
            "sizes.json",
            "missing",
            "does not list 3.tar",
            FolderCounts(sizes={"0.tar": 1, "1.tar": 1, "2.tar": 1}),
        ),
    ),
    "P306": Command(
        gaps=(Gap("s/{0..9}.tar", ("s/4.tar", "s/5.tar", "s/6.tar", "s/7.tar"), 6),), given=False
    ),
    "P307": Command(
        sidecars=Sidecars(
            {
                "s": FolderCounts(
                    stats={"0.tar": 100, "1.tar": 100}, without_stats=["2.tar", "3.tar"]
                )
            },
            [],
        ),
        given=False,
    ),
    "P308": Command((100, 0, 0, 100), others=5, arguments={"dataset_resampled": True}),
    "P310": Command(
        (9000,) * 4,
        adapt=heavy,
        arguments={"workers": 4},
        machine={"available_bytes": 20_000_000_000},
    ),
    "P311": Command(environment={"open_clip_torch": "3.3.0", "webdataset": "1.0.2"}),
    "P312": Command(
        urls=(
            "pipe:curl -s https://x/{0..3}.tar",
            "pipe:aws s3 cp s3://b/{0..3}.tar - || true",
            "pipe:cat {0..3}.gz | gzip -d",
        ),
        given=False,
    ),
    "P313": Command(arguments={"accum_freq": 128}),
    "P314": Command(arguments={"warmup": 10_000}),
    "P315": Command((125,) * 8, arguments={"batch_size": 100, "workers": 8}),
    "P316": Command(
        arguments={"batch_size": 50, "force_image_size": (224,)}, machine={"shm_total": 64_000_000}
    ),
    "P317": Command(
        arguments={"train_data": "s/{0..3}.tar", "val_data": "v/0.tar", "world_size": 2},
        validation=EMPTY,
    ),
    "P318": Command(arguments={"train_data": "s/{0..3}.tar.gz"}),
    "P319": Command(
        arguments={"train_data": "s/*.tar::/a/{1..10} /b/{1..10}.tar", "dataset_type": "webdataset"}
    ),
    "P320": Command(
        arguments={
            "train_data": "s/{0..1}.tar::s/{2..3}.tar",
            "train_data_upsampling_factors": "1",
            "dataset_resampled": True,
        }
    ),
    "P321": Command(arguments={"train_num_samples": 788_603}),
    "P322": Command(arguments={"train_num_samples": None}),
    "P323": Command(arguments={"train_data": "${WHERE_IS_IT}/{0..3}.tar"}),
    "P324": Command(
        (100,) * 40, arguments={"dataset_resampled": True, "epochs": 1, "train_num_samples": 4000}
    ),
    "P332": Command(
        adapt=in_a_bucket,
        arguments={"train_data": "s3://bucket/s/{0..3}.tar"},
        readers=("open-clip-3.3", "webdataset-1", "datasets"),
    ),
    "P325": Command((9000,) * 4, adapt=heavy, arguments={"batch_size": 1024, "workers": 4}),
}


def test_a_folder_with_one_shard_and_a_file_of_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").mkdir()
    Path("s/0.tar").touch()
    Path("s/sizes.json").touch()
    found = run_rules(Command(urls=("s",), readers=("datasets",), given=False).context(), ["P333"])[
        0
    ]
    text, golden = shown(found, tmp_path), GOLDEN / "P333.txt"
    check_file(golden, text)
    assert run_rules(Command(urls=("s",), given=False).context(), ["P333"])[0] == []


@pytest.mark.parametrize("code", CASES)
def test_a_rule_says_what_its_golden_file_says(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    text = shown(run_rules(CASES[code].context(), [code])[0], tmp_path)
    check_file(GOLDEN / f"{code}.txt", text)


def test_a_sound_command_over_sound_shards_gives_no_finding() -> None:
    sound = Command(
        urls=("pipe:curl -sSfL https://x/{0..3}.tar",), environment={"open_clip_torch": "3.3.0"}
    )
    assert run_rules(sound.context(), ["P"])[0] == []


@pytest.mark.parametrize(
    "code", sorted(set(CASES) - {"P301", "P305", "P306", "P307", "P311", "P312", "P332"})
)
def test_without_a_training_command_the_rule_is_silent(code: str) -> None:
    assert run_rules(replace(CASES[code], given=False).context(), [code])[0] == []


def test_a_rank_with_less_than_a_batch_gets_the_largest_batch_that_works() -> None:
    settings = {"seed": 1, "workers": 1, "world_size": 2, "batch_size": 10}
    (finding,) = run_rules(Command((100, 6), arguments=settings).context(), ["P302"])[0]
    assert finding.repair is not None
    assert finding.repair.note == "train with --batch-size 6, the largest that works"


def test_a_version_conflict_is_an_error_only_where_a_command_is_given() -> None:
    context = replace(CASES["P311"], given=False).context()
    assert [finding.severity for finding in run_rules(context, ["P311"])[0]] == ["warning"]


def test_weights_of_zero_stall_although_samples_are_usable() -> None:
    chosen = {
        "train_data": "s/0.tar::s/1.tar",
        "train_data_upsampling_factors": "0::1",
        "dataset_resampled": True,
    }
    (finding,) = run_rules(Command((50, 0), others=5, arguments=chosen).context(), ["P308"])[0]
    assert (finding.severity, finding.message) == (
        "error",
        "none of the shards has a usable sample: training hangs",
    )


def test_shards_without_any_usable_sample_are_one_finding() -> None:
    chosen = {"dataset_resampled": True, "train_num_samples": 100}
    context = Command((0, 0), others=5, arguments=chosen).context()
    assert context.forecasts[0].stalled
    findings = run_rules(context, ["P301", "P308"])[0]
    assert [finding.code for finding in findings] == ["P301"]


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("pipe:curl -s x", "curl without -f"),
        ("pipe:curl --fail -s x", ""),
        ("pipe:curl -sSfL x", ""),
        ("pipe:/usr/bin/curl x || true", "turned into success"),
        ("pipe:aws s3 cp s3://b/{0..3}.tar -", "a pipe is not resumed"),
        ("pipe:aws s3 cp s3://b/{0..3}.tar - | pv", "pipefail"),
        ("pipe:set -o pipefail; cat x | zstd -d", ""),
        ("pipe:cat x | zstd -d", "pipefail"),
        ("pipe:cat a || cat b", ""),
        ("https://x/curl -s y.tar", ""),
    ],
)
def test_pipes_that_hide_failures_are_told_from_those_that_do_not(url: str, word: str) -> None:
    findings = run_rules(Command(urls=(url,), given=False).context(), ["P312"])[0]
    assert [word in finding.message for finding in findings] == ([True] if word else [])


@pytest.mark.parametrize(
    ("command", "direct"),
    [
        ("aws s3 cp s3://b/{0..3}.tar -", "wdsflow validate 's3://b/{0..3}.tar'"),
        (
            "/usr/bin/aws --profile p s3 cp --quiet 's3://b/0.tar' - || true",
            "AWS_PROFILE=p wdsflow validate s3://b/0.tar",
        ),
        (
            "aws s3 cp --endpoint-url=http://h:1 s3://b/0.tar -",
            "AWS_ENDPOINT_URL=http://h:1 wdsflow validate s3://b/0.tar",
        ),
        (
            "aws s3 cp --no-sign-request s3://b/0.tar -",
            """FSSPEC_S3='{"anon": true}' wdsflow validate s3://b/0.tar""",
        ),
        ("gsutil -q cat gs://b/0.tar", "wdsflow validate gs://b/0.tar"),
        ("gcloud storage cat gs://b/0.tar", "wdsflow validate gs://b/0.tar"),
        ("curl -s -L 'https://h/0.tar?a=1&b=2'", "wdsflow validate 'https://h/0.tar?a=1&b=2'"),
        ("curl -s -H 'Authorization: x' https://h/0.tar", ""),
        ("curl -s https://h/0.tar https://h/1.tar", ""),
        ("curl -s https://h/0.tar | zstd -d; true", ""),
        ("curl -s $URL", ""),
        ("aws s3 cp s3://b/0.tar /tmp/0.tar; true", ""),
        ("curl -s 'https://h/0.tar || true", ""),
    ],
)
def test_a_pipe_that_only_copies_has_a_url_without_it(command: str, direct: str) -> None:
    findings = run_rules(Command(urls=(f"pipe:{command}",), given=False).context(), ["P312"])[0]
    assert [finding.repair.command for finding in findings if finding.repair] == (
        [direct] if direct else []
    )


def test_train_data_that_openclip_reads_well_gives_no_finding(tmp_path: Path) -> None:
    odd = tmp_path / "with space and [brackets].tar"
    odd.write_bytes(b"")
    # Braces that expand to themselves, a variable that is not set, and that OpenCLIP expands.
    plain, unset, expands = (
        tmp_path / name for name in ("{a}.tar", "${NO_SUCH_NAME}.tar", "t{1..2}.tar")
    )
    for path in (plain, unset, expands):
        path.write_bytes(b"")
    good = ("s/{000..012}.tar", "a.tar::b-{0..3}.tar", "https://x/a.tar?b=*", "pipe:cat a b.tar")
    good += (str(odd), str(plain), str(unset))
    for data in good:
        command = Command(arguments={"train_data": data, "dataset_type": "webdataset"})
        assert run_rules(command.context(), ["P319"])[0] == [], data
    for data in (
        "@list.txt",
        "~/s/{0..3}.tar",
        "s/[0-9].tar",
        str(tmp_path),
        "a.tar b.tar",
        str(expands),
    ):
        command = Command(arguments={"train_data": data, "dataset_type": "webdataset"})
        assert len(run_rules(command.context(), ["P319"])[0]) == 1, data
