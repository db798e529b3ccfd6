"""Proofs from random samples: the error of the test, and real shards with planted faults."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom  # type: ignore[import-untyped]

from tests.cli.commands import run
from tests.filtering.shards import entries
from tests.shards.archives import write_tar
from wdsflow.records.shard_counts import write_counts
from wdsflow.validate.check_options import CheckOptions, SampledOptions, WrongSampling
from wdsflow.validate.sampled.binomial_test import at_most, decide, interim_looks, upper_bound
from wdsflow.validate.sampled.sampled_check import sampled_check

HERE = CheckOptions(jobs=1, level="names")


def check(folder: Path, limit: float, seed: int = 0, confidence: float = 0.95):
    return sampled_check(
        str(folder), SampledOptions(confidence, seed), replace(HERE, max_loss=limit)
    )


def shard(path: Path, good: int, bad: int = 0) -> None:
    """Write a shard; bad samples have no image."""
    lost = [(f"bad{number}.txt", b"a caption") for number in range(bad)]
    write_tar(path, [*entries(0, good), *lost])


@pytest.mark.parametrize(
    ("lost", "draws", "share"), [(0, 100, 0.03), (3, 500, 0.01), (60, 64, 0.9), (40, 2000, 0.03)]
)
def test_probabilities_and_bounds_are_those_of_scipy(lost: int, draws: int, share: float):
    assert at_most(lost, draws, share) == pytest.approx(binom.cdf(lost, draws, share), rel=1e-9)
    assert upper_bound(lost, draws, 0.01) == pytest.approx(
        beta.ppf(0.99, lost + 1, draws - lost), rel=1e-9
    )


def outcome(share: float, limit: float, error: float, chance: np.random.Generator) -> str:
    """Run the test on pretended draws."""
    lost = before = 0
    found = "undecided"
    for look, (draws, may_prove) in enumerate(interim_looks(error, limit), 1):
        lost += int(chance.binomial(draws - before, share))
        before = draws
        found = decide(lost, draws, limit, may_prove, error / (look * (look + 1)))
        if found != "undecided":
            break
    return found


@pytest.mark.parametrize(("limit", "error"), [(0.1, 0.1), (0.02, 0.05)])
def test_looking_again_and_again_keeps_the_error(limit: float, error: float):
    chance, runs = np.random.default_rng(1), 1500
    most = error + 3 * (error * (1 - error) / runs) ** 0.5  # three standard deviations of the count
    above = [outcome(limit * 1.02, limit, error, chance) for _ in range(runs)]
    below = [outcome(limit * 0.98, limit, error, chance) for _ in range(runs)]
    assert 0 < above.count("proven") / runs <= most
    assert 0 < below.count("refuted") / runs <= most
    assert [outcome(0.0, limit, error, chance) for _ in range(3)] == ["proven"] * 3
    assert [outcome(limit * 4, limit, error, chance) for _ in range(20)].count("refuted") == 20
    clean = [outcome(limit / 10, limit, error, chance) for _ in range(200)]
    assert clean.count("proven") > 195


def test_the_error_is_exact_where_all_paths_can_be_added_up():
    limit, error, before, refuted, proven = 0.2, 0.1, 0, 0.0, 0.0
    left = np.array([1.0])  # by lost samples: the probability that the test has not ended
    for look, (draws, may_prove) in enumerate(interim_looks(error, limit), 1):
        left = np.convolve(left, binom.pmf(np.arange(draws - before + 1), draws - before, limit))
        before = draws
        for lost in range(draws + 1):
            found = decide(lost, draws, limit, may_prove, error / (look * (look + 1)))
            proven, refuted = (
                proven + left[lost] * (found == "proven"),
                refuted + left[lost] * (found == "refuted"),
            )
            left[lost] *= found == "undecided"
    assert 0.01 < proven <= error
    assert 0.01 < refuted <= error


def test_faults_in_few_shards_are_no_way_around_the_bound(tmp_path: Path):
    for number in range(9):
        shard(tmp_path / f"{number}.tar", 10)
    shard(tmp_path / "9.tar", 0, bad=10)  # a tenth of the samples, all in one place
    found = [check(tmp_path, 0.05, seed) for seed in range(6)]
    assert "proven" not in {each.outcome for each in found}
    assert {Path(shard).name for each in found for shard, _ in each.lost} == {"9.tar"}
    assert all("no image" in reason for each in found for _, reason in each.lost)
    assert check(tmp_path, 0.25).outcome == "proven"


def test_shards_count_by_their_samples_if_these_are_listed(tmp_path: Path):
    for number in range(4):
        shard(tmp_path / f"{number}.tar", 1)
    shard(tmp_path / "4.tar", 0, bad=36)  # one shard of five, nine samples of ten
    assert check(tmp_path, 0.5).outcome == "proven"
    write_counts(tmp_path, {"0.tar": 1, "1.tar": 1, "2.tar": 1, "3.tar": 1, "4.tar": 36})
    counted = check(tmp_path, 0.5)
    assert (counted.outcome, counted.by_samples) == ("refuted", True)


def test_samples_of_a_damaged_shard_count_as_lost(tmp_path: Path):
    shard(tmp_path / "0.tar", 10)
    whole = (tmp_path / "0.tar").read_bytes()
    (tmp_path / "1.tar").write_bytes(whole[: len(whole) // 2 + 700])
    found = check(tmp_path, 0.2)
    assert found.outcome == "refuted"
    assert (
        "the contents of a member are cut" in found.lost[0][1]
        or "inside a header" in found.lost[0][1]
    )


def test_what_no_proof_can_be_made_of_is_refused(tmp_path: Path):
    shard(tmp_path / "0.tar", 3)
    for confidence, limit in ((0.49, 0.1), (1.0, 0.1), (0.95, 0.0), (0.95, 1.0)):
        with pytest.raises(WrongSampling) as caught:
            check(tmp_path, limit, confidence=confidence)
        assert str(caught.value) == (
            "a check of random samples needs --confidence from 50% to below 100%, and --max-loss above 0"
        )
    with pytest.raises(WrongSampling) as caught:
        sampled_check("pipe:cat 0.tar", SampledOptions(0.95, 0), replace(HERE, max_loss=0.1))
    assert str(caught.value) == (
        "random samples cannot be taken from the output of a command: name the shards as files or urls"
    )


def test_samples_of_a_shard_that_cannot_be_read_or_has_none_count_as_lost(tmp_path: Path):
    (tmp_path / "0.tar").write_bytes(b"x")
    (tmp_path / "0.tar").chmod(0o644)
    write_tar(tmp_path / "1.tar", [])
    found = check(tmp_path, 0.2)
    reasons = {Path(url).name: reason for url, reason in found.lost}
    assert (found.outcome, len(found.lost)) == ("refuted", found.draws)
    assert reasons["1.tar"] == "it has no sample"
    assert sorted(reasons) == ["0.tar", "1.tar"]


def test_what_is_certain_has_the_probability_one_or_none():
    assert (at_most(5, 5, 0.3), at_most(6, 5, 0.3), at_most(0, 5, 0.0)) == (1.0, 1.0, 1.0)
    assert at_most(4, 5, 1.0) == 0.0
    assert upper_bound(5, 5, 0.01) == 1.0


def test_the_command_says_what_is_proven_and_ends_with_its_status(tmp_path: Path, capsys):
    shard(tmp_path / "0.tar", 20)
    shard(tmp_path / "1.tar", 19, bad=1)
    words = ("validate", tmp_path, "--jobs", 1, "--confidence", 95, "--level", "names")
    assert run(*words, "--max-loss", "20%") == 0
    told = capsys.readouterr().out
    assert told.startswith("proven: at most 0.2 of the samples are lost by OpenCLIP")
    assert "not judged: the set as a whole" in told
    assert run(*words, "--max-loss", "0.1%", "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["confidence"], found["max_loss"]) == ("refuted", 0.95, 0.001)
    assert run(*words, "--max-loss", "0") == 2
    assert run("validate", tmp_path, "--seed", 1) == 2
    assert run(*words, "--select", "W001") == 2
    assert "wdsflow validate" in capsys.readouterr().err.splitlines()[-1]
