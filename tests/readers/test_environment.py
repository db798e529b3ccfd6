"""Installed versions, and pairs that fail."""

from importlib import metadata

import pytest

from wdsflow.readers.installed_versions import version_conflicts, versions

FAIL = [
    ({"open_clip_torch": "3.3.0", "webdataset": "1.0.2"}, "error", "fname"),
    ({"open_clip_torch": "3.3.0", "webdataset": "0.2.96"}, "error", "fname"),
    ({"open_clip_torch": "4.2.0.dev0", "webdataset": "0.2.111"}, "error", "fname"),
    ({"torch": "2.4.1+cu121", "torchvision": "0.18.1"}, "error", "torchvision"),
    ({"torch": "2.13.0", "torchvision": "0.29.0"}, "error", "torchvision"),
    ({"torch": "2.2.2", "numpy": "2.0.1"}, "error", "Numpy"),
    ({"open_clip_torch": "3.3.0", "python": "3.14.1"}, "error", "pickle"),
    ({"img2dataset": "1.47.0", "webdataset": "1.0.2"}, "warning", "below 0.3"),
]
FIT = [
    {},
    {"open_clip_torch": "3.3.0", "webdataset": "0.2.86", "python": "3.13.2"},
    {"webdataset": "1.0.2"},
    {"open_clip_torch": "4.3.0", "webdataset": "1.0.2"},
    {"torch": "2.4.1", "torchvision": "0.19.1+cu121"},
    {"torch": "2.15.0", "torchvision": "0.29.2"},
    {"torch": "unknown", "torchvision": "0.19"},
    {"torch": "2.3.0", "numpy": "2.1.0"},
    {"open_clip_torch": "4.2.0.dev0", "python": "3.14.0"},
]


@pytest.mark.parametrize(("installed", "severity", "word"), FAIL)
def test_a_pair_that_fails_is_named_with_its_fix(installed, severity, word):
    (found,) = version_conflicts(installed)
    assert found.severity == severity
    assert word in found.why
    assert all(version in found.versions for version in installed.values())
    assert found.fix


@pytest.mark.parametrize("installed", FIT)
def test_versions_that_fit_give_no_conflict(installed):
    assert version_conflicts(installed) == []


def test_errors_come_before_warnings():
    installed = {"img2dataset": "1.47.0", "webdataset": "1.0.2", "open_clip_torch": "3.3.0"}
    assert [each.severity for each in version_conflicts(installed)] == ["error", "warning"]


def test_versions_are_those_of_the_installation():
    found = versions()
    assert found["numpy"] == metadata.version("numpy")
    assert found["python"].count(".") == 2
    assert "no-such-thing" not in found
