"""A repair keeps samples with several images together."""

import pytest

from wdsflow.repair.clean_names import tidy_names


@pytest.mark.parametrize(
    "names",
    [
        ["000.0.jpg", "000.txt", "001.0.jpg", "001.1.jpg", "001.txt"],
        ["d/000.json", "d/000.0.png", "d/000.1.webp", "d/000.2.jpg"],
        ["000.jpg", "000.1.jpg", "000.2.jpg", "000.txt"],
        ["000.0.wav", "000.1.mp4", "000.json"],
    ],
)
def test_numbered_files_stay_in_their_sample(names):
    assert tidy_names(names).names == names


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["a.1.jpg", "a.1.txt", "a.2.jpg", "a.2.txt", "a.txt"], {"a_1", "a_2", "a"}),
        (["a.jpg", "a.txt", "a.1.jpg"], {"a", "a_1"}),
        (["a.20240101.jpg", "a.txt"], {"a", "a_20240101"}),
        (["v1.0.jpg", "v1.0.txt"], {"v1_0"}),
    ],
)
def test_other_dots_before_numbers_belong_to_keys(names, keys):
    assert {str(name).partition(".")[0] for name in tidy_names(names).names} == keys
